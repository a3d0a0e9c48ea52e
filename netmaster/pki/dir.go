package pki

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

// Save writes CAs to a directory that only its user can read: for each a file with the certificates of its bundle
// and one with the keys. The last file that it writes is the one that Load looks for, so that for Load a directory
// is complete or empty. The CAs of a next step can be written over the present ones: after an interruption Load
// can use the files, since at any moment each signing certificate has its key.
func (a Authorities) Save(dir string) error {
	if err := durable.MakeDir(dir); err != nil {
		return err
	}
	files, err := a.Encode()
	if err != nil {
		return err
	}
	for i := len(roles) - 1; i >= 0; i-- {
		for _, end := range []string{".key", ".crt"} {
			name := string(roles[i]) + end
			if err := durable.Write(filepath.Join(dir, name), []byte(files[name])); err != nil {
				return err
			}
		}
	}
	return nil
}

// last is the file that Save writes at the end.
const last = string(API) + ".crt"

// Load reads the result of Save. The error is fault.NotFound if the directory has no CAs, and a fault.Invalid that
// names the file if others can read the directory, or it has invalid content.
func Load(dir string) (Authorities, error) {
	if _, err := os.Stat(filepath.Join(dir, last)); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "%s: no authorities", dir)
	}
	files := map[string]string{}
	for _, role := range roles {
		for _, end := range []string{".crt", ".key"} {
			name, read := string(role)+end, ReadFile
			if end == ".key" {
				read = ReadSecret
			}
			content, err := read(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			files[name] = string(content)
		}
	}
	all, err := Decode(files)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: %w", dir, err)
	}
	return all, nil
}

// ReadSecret is ReadFile for a file that others must not be able to read.
func ReadSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Invalid, "%s: mode is %#o, others can read it; want 0600", path, info.Mode().Perm())
	}
	return ReadFile(path)
}

// ReadFile reads a small file.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%w", err)
	}
	if info.Size() > maxPEM {
		return nil, fault.New(fault.Invalid, "%s: %d bytes, at most %d are read", path, info.Size(), maxPEM)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%w", err)
	}
	return content, nil
}

// OpenKey reads the key in a file; if the file does not exist it creates one that only its user can read.
func OpenKey(path string) (*ecdsa.PrivateKey, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	text, err := ReadSecret(path)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func makeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	text, err := EncodeKey(key)
	if err != nil {
		return nil, err
	}
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return key, durable.Write(path, text)
}

// Encode returns certificates and keys as PEM, by file name.
func (a Authorities) Encode() (map[string]string, error) {
	files := map[string]string{}
	for _, role := range roles {
		var keys []byte
		for _, one := range append([]*Authority{a[role]}, a[role].beside...) {
			if one.key == nil {
				continue
			}
			key, err := EncodeKey(one.key)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", role, err)
			}
			keys = append(keys, key...)
		}
		files[string(role)+".crt"], files[string(role)+".key"] = string(EncodeCertificates(a[role].Bundle()...)), string(keys)
	}
	return files, nil
}

// Decode reads the result of Encode. Errors are fault.Invalid.
func Decode(files map[string]string) (Authorities, error) {
	all := Authorities{}
	for _, role := range roles {
		a, err := readAuthority(role, []byte(files[string(role)+".crt"]), []byte(files[string(role)+".key"]))
		if err != nil {
			return nil, err
		}
		all[role] = a
		if a.Cluster != all[roles[0]].Cluster {
			return nil, fault.New(fault.Invalid, "%s: it is of cluster %s, %s of %s", role, a.Cluster, roles[0], all[roles[0]].Cluster)
		}
	}
	return all, nil
}
