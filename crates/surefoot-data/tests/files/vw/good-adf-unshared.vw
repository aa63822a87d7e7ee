'n1 |news x words:12
0:-1:0.5 'n2 |news y
| b

0:0:0.25 |news x
|news y

|news x
|news z
