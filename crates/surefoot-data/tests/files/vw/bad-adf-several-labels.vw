shared | a
1 2:1:0.5 | x
