"""The procedures that CALL runs, with the names, parameters and answers that Hudi gives them."""
