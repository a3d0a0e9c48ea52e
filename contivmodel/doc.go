// Package contivmodel declares the configuration objects of the controller.
//
// Every object is declared once, as a Go struct whose tags hold everything that the rest of the project needs
// about a field:
//
//		json    name on the wire
//		model   rules, separated by blanks:
//		          key=N       N-th part of the object's key
//		          required    may not be empty
//		          max=N       longest text in bytes, or largest number
//		          min=N       smallest number (0 if absent)
//		          rule=NAME   pattern of the table in pattern.go
//		          oneof=a|b   the values allowed
//		          default=V   what an absent value means
//		          changeable  an update may change it
//	         unchecked   required and oneof are for readers; the operation checks
//	                     them itself, at the right time and with the right text
//		doc     meaning, one line
//		column  position and heading in the listing of netctl
//
// A field of the type secret.Text is write-only (secret.go).
//
// Kinds reads the declarations by reflection, once; validation, decoding, the
// REST routes, the client, netctl and the API document all work from what it
// returns. A new object needs a struct, three one-line methods and a line in
// the table of kinds.go.
//
// Fields are in alphabetical order of their JSON names: that is the order of checks and of output.
package contivmodel
