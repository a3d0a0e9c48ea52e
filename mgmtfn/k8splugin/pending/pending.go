// Package pending is the queue of deletions for which no server, or no slot of the server, was available.
//
// After a failed DEL a container runtime keeps the pod and retries, indefinitely if necessary; a node whose agent
// is being upgraded could not delete pods. So the CNI program writes the request to disk and reports success, and
// the server carries it out as soon as it runs. There is one file per attachment: a second DEL of the same
// attachment replaces the first.
package pending

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/utils/durable"
)

const suffix = ".json"

// Queue is a directory of requests.
type Queue struct{ dir string }

// Dir returns the directory of the queue in a state directory.
func Dir(stateDir string) string { return filepath.Join(stateDir, "pending-del") }

// Open returns the queue of a state directory, which need not exist yet.
func Open(stateDir string) Queue { return Queue{dir: Dir(stateDir)} }

// Put adds a deletion to the queue.
func (q Queue) Put(r cniwire.Request) error {
	if err := r.Attachment().Validate(); err != nil {
		return fmt.Errorf("queue deletion: %w", err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("queue deletion of %s: %w", r.Attachment(), err)
	}
	if err := durable.MakeDir(q.dir); err != nil {
		return err
	}
	return durable.Write(q.path(r.Attachment()), data)
}

// Has reports whether a deletion of the attachment is queued.
func (q Queue) Has(a cniwire.Attachment) bool {
	_, err := os.Lstat(q.path(a))
	return err == nil
}

// Done removes a deletion that has been carried out.
func (q Queue) Done(a cniwire.Attachment) error { return durable.Remove(q.path(a)) }

// List returns the queued deletions. Files that are not valid requests are renamed, so that they are reported only
// once, and named in the error; the valid ones are returned nevertheless.
func (q Queue) List() ([]cniwire.Request, error) {
	names, err := durable.List(q.dir, suffix)
	if err != nil {
		return nil, err
	}
	var requests []cniwire.Request
	var errs []error
	for _, name := range names {
		r, err := q.read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // carried out meanwhile
		case err != nil:
			errs = append(errs, err, q.setAside(name))
		default:
			requests = append(requests, r)
		}
	}
	return requests, errors.Join(errs...)
}

func (q Queue) read(name string) (cniwire.Request, error) {
	path := filepath.Join(q.dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		return cniwire.Request{}, fmt.Errorf("read queued deletion: %w", err)
	}
	var r cniwire.Request
	if err := json.Unmarshal(data, &r); err != nil {
		return cniwire.Request{}, fmt.Errorf("queued deletion %s is corrupt: %w", path, err)
	}
	if err := r.Attachment().Validate(); err != nil {
		return cniwire.Request{}, fmt.Errorf("queued deletion %s: %w", path, err)
	}
	if r.Attachment().String()+suffix != name {
		return cniwire.Request{}, fmt.Errorf("queued deletion %s is about %s", path, r.Attachment())
	}
	return r, nil
}

func (q Queue) setAside(name string) error {
	path := filepath.Join(q.dir, name)
	return os.Rename(path, path+".corrupt")
}

func (q Queue) path(a cniwire.Attachment) string {
	return filepath.Join(q.dir, a.String()+suffix)
}
