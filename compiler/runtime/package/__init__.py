"""Packages: a project's kernels in one file, for several processors, loaded without a compiler.

``container`` is the file, ``index`` what it tells of itself, ``processor`` which code runs here,
``link`` makes a processor's library, and ``load`` gives kernels by name.
"""
