// Package credentials keeps what netctl login has got: tokens, and the authorities that servers are known by.
//
// The file holds one token per server; a token of the original netctl, which
// knew one server only, stands beside them and counts for every other server:
//
//	{"token": "...", "servers": {"https://10.0.0.1:10000": {"token": "...", "authorities": "-----BEGIN ..."}}}
//
// Only the owner can read it, and it is replaced as a whole.
package credentials

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/contiv/netplugin/utils/durable"
)

// File is the path of the credentials: $NETCTL_CONFIG, or config.json in the
// folder .netctl of the home directory. Without a home there is none.
func File() string {
	if path := os.Getenv("NETCTL_CONFIG"); path != "" {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".netctl", "config.json")
}

// Store is what a file holds.
type Store struct {
	Token   string            `json:"token,omitempty"` // of the original netctl
	Servers map[string]Server `json:"servers,omitempty"`
}

// Server is what is known for one server.
type Server struct {
	Token       string `json:"token,omitempty"`
	Authorities string `json:"authorities,omitempty"` // PEM, to trust instead of the system's; they outlive the token
}

// Load reads a file; one that does not exist is an empty store.
func Load(path string) (Store, error) {
	var s Store
	text, err := os.ReadFile(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return Store{}, fmt.Errorf("credentials %s: %w", path, err)
	}
	return s, nil
}

// For returns the token for a server; empty: there is none.
func (s Store) For(server string) string {
	return cmp.Or(s.Servers[server].Token, s.Token)
}

// Authorities are those that some servers are known by, by server in PEM. One that is known by the system's has none.
func (s Store) Authorities(servers ...string) map[string]string {
	all := map[string]string{}
	for _, server := range servers {
		if pem := s.Servers[server].Authorities; pem != "" {
			all[server] = pem
		}
	}
	return all
}

// Set keeps the token of a server; an empty one forgets it.
func (s *Store) Set(server, token string) {
	s.change(server, func(known *Server) { known.Token = token })
}

// Trust keeps the authorities that a server is known by.
func (s *Store) Trust(server, authorities string) {
	s.change(server, func(known *Server) { known.Authorities = authorities })
}

func (s *Store) change(server string, to func(*Server)) {
	known := s.Servers[server]
	to(&known)
	if known == (Server{}) {
		delete(s.Servers, server)
		return
	}
	if s.Servers == nil {
		s.Servers = map[string]Server{}
	}
	s.Servers[server] = known
}

// Save replaces the file.
func (s Store) Save(path string) (err error) {
	if path == "" {
		return errors.New("no place for credentials: neither HOME nor NETCTL_CONFIG is set")
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("credentials %s: %w", path, err)
		}
	}()
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	return durable.Write(path, append(text, '\n'))
}
