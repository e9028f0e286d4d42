// Package clienttest runs clients in Python, JavaScript, Ruby and a shell against package serve, and the examples of docs/serve.md. It has tests
// alone. A client whose runtime the machine does not have is skipped, and the test says so.
package clienttest
