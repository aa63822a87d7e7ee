shared | a
0:1:0.5 | x
| y
0:1:0.5 | z
