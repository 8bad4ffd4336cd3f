"""The record index: record key to file group, for the whole table or per partition."""
