shared 'e1 |user age:3
0:-1:0.5 |action a:1
|action b:1
| c

shared | x
| a
9:0.5:0.25 b|x y


1:0:0.5 | single
shared | z
 | one
1:1:0.5 | two