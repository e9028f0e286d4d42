// Package top is the live view of an upstream in a terminal.
package top
