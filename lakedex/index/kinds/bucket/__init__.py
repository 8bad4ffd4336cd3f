"""The bucket index: a hash of the record key names its bucket, and a bucket is one file group.

Hudi's engines SIMPLE and CONSISTENT_HASHING, whose hashes, file ids and hashing metadata are the
same here, and EXTENDIBLE_HASHING.
"""
