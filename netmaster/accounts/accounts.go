// Package accounts is what netmaster knows about passwords and tokens, without
// any store: the rules for names and passwords, their hashes, the tokens that
// stand for a user or a program, and the delays for those who guess.
//
//	password.go  hashes of passwords, in the form in which they are stored
//	hasher.go    few of them at a time: one costs 64 MiB and a tenth of a second
//	task.go      one of them
//	workers.go   processes that hash, so that requests do not wait for it
//	worker.go    what one of them does
//	turns.go     whose turn is next
//	token.go     tokens: made, taken apart, compared
//	guesses.go   who has to wait after wrong passwords, and who goes first
//
// Nothing here can give a password or a token back. The time is an argument.
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

// CheckName refuses what is no name of a user or a token.
func CheckName(name string) error {
	if len(name) > MaxName || !nameForm.MatchString(name) || name == "." || name == ".." {
		return fault.New(fault.Invalid, "name %.64q: want 1 to %d letters, digits and _ . @ -", name, MaxName)
	}
	return nil
}

// CheckPassword refuses a new password by its length alone, in bytes. The error
// does not show it.
func CheckPassword(password string) error {
	if n := len(password); n < MinPassword || n > MaxPassword || !utf8.ValidString(password) {
		return fault.New(fault.Invalid, "password: want %d to %d bytes of UTF-8, it has %d", MinPassword, MaxPassword, n)
	}
	return nil
}
