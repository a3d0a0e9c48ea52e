// Package credentials stores the results of netctl login: tokens, and the CAs of servers.
//
// The file has one token per server; a token of the original netctl, which supported one server only, is stored
// beside them and applies to every other server:
//
//	{"token": "...", "servers": {"https://10.0.0.1:10000": {"token": "...", "authorities": "-----BEGIN ..."}}}
//
// Only the owner can read it, and it is replaced atomically.
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

// File returns the path of the credentials: $NETCTL_CONFIG, or config.json in the directory .netctl of the home
// directory; empty without a home directory.
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

// Store is the content of a file.
type Store struct {
	Token   string            `json:"token,omitempty"` // of the original netctl
	Servers map[string]Server `json:"servers,omitempty"`
}

// Server is the stored data of one server.
type Server struct {
	Token       string `json:"token,omitempty"`
	Authorities string `json:"authorities,omitempty"` // PEM, replaces the system's CAs; outlives the token
}

// Load reads a file; a missing file is an empty store.
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

// Exposed returns an error if others than the owner may read or change a file: they may use its tokens, or have its
// owner trust another server. A missing file is not exposed.
func Exposed(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return fmt.Errorf("credentials %s: others may read or change it (mode %04o): run chmod 600 %[1]s", path, info.Mode().Perm())
}

// For returns the token for a server; empty: none.
func (s Store) For(server string) string {
	return cmp.Or(s.Servers[server].Token, s.Token)
}

// Authorities returns the CAs of servers in PEM, by server. Servers with certificates of the system's CAs have
// none.
func (s Store) Authorities(servers ...string) map[string]string {
	all := map[string]string{}
	for _, server := range servers {
		if pem := s.Servers[server].Authorities; pem != "" {
			all[server] = pem
		}
	}
	return all
}

// Set stores the token of a server; an empty one removes it.
func (s *Store) Set(server, token string) {
	s.change(server, func(known *Server) { known.Token = token })
}

// Trust stores the CAs of a server.
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
