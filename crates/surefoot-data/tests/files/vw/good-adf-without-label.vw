
shared | a
| x
| y

1:0:0.5 | a
