"""Deflate streams put together by hand, where the data says more than a general compressor sees.

`codes` are Huffman codes and the tables made of them, `bit_rows` packs codes of many rows at once.
What becomes a match and what stays a literal is for the caller to say.
"""
