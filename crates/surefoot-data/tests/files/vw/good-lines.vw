1:0.5:0.25 |user age:3 city=Rome |device mobile
2:-1:0.75 'e2 | a b:0.5 a	 c:0
3:0:1.2 tag| x
1 2:-0.4:0.3 4 |user:0.5 age:4 new |

4:2:1
