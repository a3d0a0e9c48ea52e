package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/utils/durable"
)

const (
	suffix  = ".json"
	corrupt = ".corrupt" // follows the suffix of files that were set aside
)

// Store is the directory of checkpoints with a copy in memory. Callers must not write the same attachment
// concurrently.
type Store struct {
	dir string

	mu      sync.Mutex
	records map[cniwire.Attachment]Record
	failed  bool // the last checkpoint could not be written
}

// Open reads all checkpoints. Invalid files are renamed and reported in problems; they do not prevent the start.
func Open(dir string) (store *Store, problems []error, err error) {
	if err := durable.MakeDir(dir); err != nil {
		return nil, nil, err
	}
	if err := durable.Sweep(dir); err != nil {
		return nil, nil, err
	}
	names, err := durable.List(dir, suffix)
	if err != nil {
		return nil, nil, err
	}
	s := &Store{dir: dir, records: map[cniwire.Attachment]Record{}}
	for _, name := range names {
		r, err := read(filepath.Join(dir, name))
		if err == nil && r.Attachment().String()+suffix != name {
			err = fmt.Errorf("checkpoint %s is about %s", name, r.Attachment())
		}
		if err != nil {
			path := filepath.Join(dir, name)
			problems = append(problems, errors.Join(err, os.Rename(path, path+corrupt)))
			continue
		}
		s.records[r.Attachment()] = r
	}
	return s, problems, nil
}

func read(path string) (Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Record{}, fmt.Errorf("read checkpoint: %w", err)
	}
	r, err := decode(data)
	if err != nil {
		return Record{}, fmt.Errorf("checkpoint %s is corrupt: %w", path, err)
	}
	return r, nil
}

func decode(data []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, err
	}
	if err := r.Attachment().Validate(); err != nil {
		return Record{}, err
	}
	if !slices.Contains([]State{Adding, Ready, Deleting}, r.State) {
		return Record{}, fmt.Errorf("unknown state %q", r.State)
	}
	if r.Tenant == "" || r.NetworkName == "" || r.Endpoint == "" {
		return Record{}, fmt.Errorf("tenant %q, network %q, endpoint %q: one is missing", r.Tenant, r.NetworkName, r.Endpoint)
	}
	return r, nil
}

// Begin writes the checkpoint of an attachment that is being added. It survives the process. A power failure it
// survives only after Sync, which is not needed if the store has the boot of the endpoint.
func (s *Store) Begin(r *Record, now time.Time) error {
	return s.write(r, Adding, now, durable.Put)
}

// Sync makes what Begin wrote durable.
func (s *Store) Sync(r *Record) error {
	if err := durable.Sync(s.path(r.Attachment())); err != nil {
		return fmt.Errorf("checkpoint of %s: %w", r.Attachment(), err)
	}
	return nil
}

// Finish writes the checkpoint of a complete attachment. It survives the process. A power failure may restore the
// previous one, or corrupt or remove the file; then the container is gone, too, and the server finds an endpoint
// without container and checkpoint.
func (s *Store) Finish(r *Record, now time.Time) error {
	return s.write(r, Ready, now, durable.Put)
}

// Delete durably marks an attachment as to be removed.
func (s *Store) Delete(r *Record, now time.Time) error {
	return s.write(r, Deleting, now, durable.Write)
}

func (s *Store) write(r *Record, state State, now time.Time, write func(path string, data []byte) error) error {
	next := *r
	next.State, next.Since = state, now
	data, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return fmt.Errorf("checkpoint of %s: %w", r.Attachment(), err)
	}
	path := s.path(r.Attachment())
	if err = write(path, data); errors.Is(err, fs.ErrNotExist) { // somebody has removed the directory
		if err = durable.MakeDir(s.dir); err == nil {
			err = write(path, data)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed = err != nil; s.failed {
		return fmt.Errorf("checkpoint of %s: %w", r.Attachment(), err)
	}
	*r = next
	s.records[r.Attachment()] = next
	return nil
}

// probeSize is the size of the file that Problem writes, in bytes: on a full disk, smaller ones may have room.
const probeSize = 4096

// Problem returns why no checkpoint can be written, as on a disk that is full or has become read-only. It writes only
// if the last checkpoint failed: until then it returns nil.
func (s *Store) Problem() error {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if !failed {
		return nil
	}
	probe := filepath.Join(s.dir, "probe")
	if err := durable.Put(probe, make([]byte, probeSize)); err != nil {
		return err
	}
	return durable.Remove(probe)
}

// SetAside returns the paths of checkpoints that could not be read.
func (s *Store) SetAside() ([]string, error) {
	names, err := durable.List(s.dir, suffix+corrupt)
	for i := range names {
		names[i] = filepath.Join(s.dir, names[i])
	}
	return names, err
}

// Remove removes the checkpoint of an attachment.
func (s *Store) Remove(a cniwire.Attachment) error {
	if err := durable.Remove(s.path(a)); err != nil {
		return fmt.Errorf("checkpoint of %s: %w", a, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, a)
	return nil
}

// Get returns the record of an attachment, if there is one.
func (s *Store) Get(a cniwire.Attachment) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[a]
	return r, ok
}

// Select returns the records that match, in the order of their names.
func (s *Store) Select(match func(*Record) bool) []Record {
	s.mu.Lock()
	var found []Record
	for _, r := range s.records {
		if match(&r) {
			found = append(found, r)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(found, func(a, b Record) int {
		return strings.Compare(a.Attachment().String(), b.Attachment().String())
	})
	return found
}

func (s *Store) path(a cniwire.Attachment) string {
	return filepath.Join(s.dir, a.String()+suffix)
}
