// Package accounts has the parts of authentication that need no store: rules for
// names and passwords, password hashes, API and session tokens, and the delays after
// wrong guesses.
//
//	password.go  hashes of passwords, in the form in which they are stored
//	hasher.go    hashing, few at a time: one hash costs 64 MiB and a tenth of a second
//	task.go      a password to hash, or to compare with a hash
//	workers.go   processes that hash, so that requests do not wait for it
//	worker.go    such a process
//	turns.go     the queue for hashing
//	token.go     tokens: creation, parsing, comparison
//	guesses.go   the delays after wrong passwords, and the rank in the queue
//
// No password or token can be recovered from the stored data. The time is an argument.
package accounts

import (
	"regexp"
	"unicode/utf8"

	"github.com/contiv/netplugin/utils/fault"
)

// Limits of names and passwords. The longest password bounds what is hashed.
const (
	MaxName     = 64
	MinPassword = 12
	MaxPassword = 1024
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_.@-]+$`)

// CheckName refuses invalid names of users and tokens.
func CheckName(name string) error {
	if len(name) > MaxName || !nameForm.MatchString(name) || name == "." || name == ".." {
		return fault.New(fault.Invalid, "name %.64q: want 1 to %d letters, digits and _ . @ -", name, MaxName)
	}
	return nil
}

// CheckPassword refuses a new password only by its length, in bytes. The error does not show it.
func CheckPassword(password string) error {
	if n := len(password); n < MinPassword || n > MaxPassword || !utf8.ValidString(password) {
		return fault.New(fault.Invalid, "password: want %d to %d bytes of UTF-8, it has %d", MinPassword, MaxPassword, n)
	}
	return nil
}
