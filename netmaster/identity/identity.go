// Package identity is the identities of clients.
//
// A client proves its identity by a certificate, a token or the socket of root, where its
// request enters the daemon. From there on the identity is in the context of the request,
// where authorization reads it. What an identity may do is decided elsewhere.
package identity

import (
	"context"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// Kind is what an identity is.
type Kind string

// The kinds. The zero value is Nobody.
const (
	Nobody Kind = ""       // nothing was shown
	Root   Kind = "root"   // the user root on the machine of a netmaster
	Master Kind = "master" // a netmaster
	Node   Kind = "node"   // the agent of a node
	User   Kind = "user"   // a person
	Token  Kind = "token"  // a program with an API token

	// Loopback is whoever asks over plain HTTP on the machine of a netmaster that serves that
	// in a role, which is its name.
	Loopback Kind = "loopback"
)

// Identity is who a request comes from.
type Identity struct {
	Kind Kind
	Name string // of a master, node, user or token, or a role of loopback, as ValidName has it; others have none

	// KeyHash is the hash of the public key of the certificate that was shown, as
	// pki.KeyHash makes it. Empty: no certificate was shown.
	KeyHash string
	// Issued: the cluster has made the certificate of a user, and has a record of it. Of one of an authority of the
	// operator's own it has none.
	Issued bool
	// Session is the id of the session or of the API token that was shown.
	Session string
}

// named tells whether identities of a kind have a name.
func (k Kind) named() bool {
	return k == Master || k == Node || k == User || k == Token || k == Loopback
}

// String is how an identity is written for people and in records, such as
// "node/h1", "user/alice", "root" or "nobody".
func (i Identity) String() string {
	switch {
	case i.Kind == Nobody:
		return "nobody"
	case i.Kind.named():
		return string(i.Kind) + "/" + i.Name
	}
	return string(i.Kind)
}

// Parse reads what String wrote. Anything else is a fault.Malformed.
func Parse(text string) (Identity, error) {
	kind, name, _ := strings.Cut(text, "/")
	found := Identity{Kind: Kind(kind), Name: name}
	if kind == "nobody" {
		found.Kind = Nobody
	}
	if found.String() != text || found.Kind.named() != ValidName(name) || !found.known() {
		return Identity{}, fault.New(fault.Malformed, "identity %.300q: want root, nobody, or master, node, user, token or loopback with a name, such as node/h1", text)
	}
	return found, nil
}

func (i Identity) known() bool { return i.Kind == Nobody || i.Kind == Root || i.Kind.named() }

// maxName is the length of the longest name of a host.
const maxName = 253

// ValidName tells whether an identity may have a name: letters, digits, "_", ".", "@"
// and "-", at most 253 of them, and not "." or "..", which mean something in paths.
func ValidName(name string) bool {
	return len(name) <= maxName && name != "." && name != ".." && only(name, "_.@-")
}

// validCluster tells whether a text can be the id of a cluster.
func validCluster(id string) bool { return len(id) <= 64 && only(id, "-") }

// only tells whether a text that is not empty has letters, digits and some others only.
func only(text, others string) bool {
	for _, c := range []byte(text) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return text != ""
}

// contextKey is where the identity is in a context.
type contextKey struct{}

// With returns a context for a request of the identity.
func With(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, who)
}

// From returns who a request comes from; nobody, if nothing says it.
func From(ctx context.Context) Identity {
	who, _ := ctx.Value(contextKey{}).(Identity)
	return who
}
