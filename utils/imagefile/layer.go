package imagefile

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// Layer is a layer of a file system; images may share it.
type Layer struct {
	content bytes.Buffer
	tar     *tar.Writer
	have    map[string]bool // paths in the layer
	err     error           // the first error; nothing is added after it
}

// NewLayer returns an empty layer.
func NewLayer() *Layer {
	l := &Layer{have: map[string]bool{}}
	l.tar = tar.NewWriter(&l.content)
	return l
}

func (l *Layer) add(header *tar.Header, content []byte) {
	if l.err != nil || l.have[header.Name] {
		return
	}
	l.have[header.Name] = true
	header.Size = int64(len(content))
	if l.err = l.tar.WriteHeader(header); l.err == nil {
		_, l.err = l.tar.Write(content)
	}
}

// Dir adds a directory.
func (l *Layer) Dir(path string, mode int64) {
	l.add(&tar.Header{Typeflag: tar.TypeDir, Name: path[1:] + "/", Mode: mode}, nil)
}

// Link adds a symbolic link.
func (l *Layer) Link(path, target string) {
	l.add(&tar.Header{Typeflag: tar.TypeSymlink, Name: path[1:], Linkname: target, Mode: 0o777}, nil)
}

// Text adds a file.
func (l *Layer) Text(path, content string) {
	l.add(&tar.Header{Typeflag: tar.TypeReg, Name: path[1:], Mode: 0o644}, []byte(content))
}

// Script adds an executable text.
func (l *Layer) Script(path, content string) {
	l.add(&tar.Header{Typeflag: tar.TypeReg, Name: path[1:], Mode: 0o755}, []byte(content))
}

// Program adds an executable file of this machine.
func (l *Layer) Program(path, source string) { l.file(path, source, 0o755) }

// File adds a file of this machine.
func (l *Layer) File(path, source string) { l.file(path, source, 0o644) }

func (l *Layer) file(path, source string, mode int64) {
	if l.err != nil {
		return
	}
	content, err := os.ReadFile(source)
	if err != nil {
		l.err = err
		return
	}
	l.add(&tar.Header{Typeflag: tar.TypeReg, Name: path[1:], Mode: mode}, content)
}

// libraries are the paths in the output of ldd(1).
var libraries = regexp.MustCompile(`(/\S+) \(0x`)

// Tools adds programs of this machine, found by PATH, with the libraries that they need.
func (l *Layer) Tools(ctx context.Context, names ...string) {
	for _, name := range names {
		if l.err != nil {
			return
		}
		source, err := exec.LookPath(name)
		if err == nil {
			source, err = filepath.EvalSymlinks(source)
		}
		if err != nil {
			l.err = fmt.Errorf("program %s for an image: %w", name, err)
			return
		}
		l.Program("/usr/bin/"+name, source)
		out, err := exec.CommandContext(ctx, "ldd", source).Output()
		if err != nil {
			continue // static
		}
		for _, match := range libraries.FindAllStringSubmatch(string(out), -1) {
			l.Program(match[1], match[1])
		}
	}
}

// close ends the layer and returns its digest, by which images refer to it.
func (l *Layer) close() (digest string, err error) {
	if l.err != nil {
		return "", l.err
	}
	if err := l.tar.Close(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(l.content.Bytes())
	return hex.EncodeToString(sum[:]), nil
}
