"""The procedures of CALL, with the names, parameters and results that Hudi gives them."""
