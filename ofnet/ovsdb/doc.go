// Package ovsdb is a client of the Open vSwitch database (RFC 7047).
//
// The database is a set of tables that ovs-vswitchd turns into bridges and ports. A program writes the desired
// rows in one transaction and watches the rows for the result: a port's OpenFlow number, for example, appears in
// the row of its interface.
//
// The package has three layers, one on top of the other:
//
//   - values: Go values to and from the atoms, sets, maps and row names of the
//     protocol (value.go), and structs with `ovsdb:"column"` tags to and from
//     rows (row.go);
//   - connection: JSON-RPC 1.0 without framing over one stream (conn.go), with the
//     operations of a transaction (operation.go, transact.go);
//   - Client: a connection that is re-established when lost, with a typed copy of the
//     requested tables only (client.go, table.go, index.go, schema.go), and a lock
//     that excludes a second writer (lock.go).
//
// The copy is maintained by the plain "monitor" of the RFC. Its successors save bytes by sending differences; the
// tables watched here are small, and a full row per change can be decoded without state. After a reconnect the new
// snapshot is compared with the copy and only the differences are reported, so that a user of the copy does not
// notice the interruption.
//
// The server sends the changes of a transaction before its response: once Transact has returned, the copy contains
// what was written.
//
// A message that cannot be decoded ends the connection with an error; messages are limited in size.
package ovsdb
