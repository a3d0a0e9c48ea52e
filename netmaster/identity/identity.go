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
	Nobody Kind = ""       // without credentials
	Root   Kind = "root"   // the user root on the machine of a netmaster
	Master Kind = "master" // a netmaster
	Node   Kind = "node"   // the agent of a node
	User   Kind = "user"   // a person
	Token  Kind = "token"  // a program with an API token

	// Loopback is a client over plain HTTP on the machine of a netmaster that serves such clients in
	// a role, which is the identity's name.
	Loopback Kind = "loopback"
)

// Identity is the identity of the client of a request.
type Identity struct {
	Kind Kind
	Name string // of a master, node, user or token, or the role of loopback, see ValidName; others have none

	// KeyHash is the hash of the public key of the presented certificate, see pki.KeyHash; empty: none was presented.
	KeyHash string
	// Issued: the certificate of a user was issued by the cluster, which has a record of it. For a CA
	// of the operator there is none.
	Issued bool
	// Session is the id of the presented session or API token.
	Session string
}

// named reports whether identities of a kind have a name.
func (k Kind) named() bool {
	return k == Master || k == Node || k == User || k == Token || k == Loopback
}

// String returns the identity for people and in records, such as "node/h1", "user/alice", "root" or "nobody".
func (i Identity) String() string {
	switch {
	case i.Kind == Nobody:
		return "nobody"
	case i.Kind.named():
		return string(i.Kind) + "/" + i.Name
	}
	return string(i.Kind)
}

// Parse parses the result of String. Other texts are fault.Malformed.
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

// maxName is the maximum length of a host name.
const maxName = 253

// ValidName reports whether an identity may have a name: letters, digits, "_", ".", "@" and "-", at most 253 of
// them, and not "." or "..", which have a meaning in paths.
func ValidName(name string) bool {
	return len(name) <= maxName && name != "." && name != ".." && only(name, "_.@-")
}

// validCluster reports whether a text can be the id of a cluster.
func validCluster(id string) bool { return len(id) <= 64 && only(id, "-") }

// only reports whether a text is not empty and has only letters, digits and some other characters.
func only(text, others string) bool {
	for _, c := range []byte(text) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return text != ""
}

// contextKey is the context key of the identity.
type contextKey struct{}

// With returns a context for a request of the identity.
func With(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, who)
}

// From returns the identity in a context; Nobody if there is none.
func From(ctx context.Context) Identity {
	who, _ := ctx.Value(contextKey{}).(Identity)
	return who
}
