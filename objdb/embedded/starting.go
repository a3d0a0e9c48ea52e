package embedded

import (
	"errors"
	"fmt"
	"io"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// startEtcd starts etcd. Of data that it cannot read etcd returns an error, panics, or logs a fatal error, which ends
// its goroutine (logger) and arrives from gaveUp: therefore it has a goroutine of its own.
func startEtcd(settings *embed.Config, gaveUp <-chan error) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan result, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				started <- result{err: damaged(fmt.Errorf("etcd gives up: %v", cause))}
			}
		}()
		etcd, err := embed.StartEtcd(settings)
		switch {
		case isDamage(err):
			err = damaged(fmt.Errorf("etcd gives up: %w", err))
		case err != nil:
			err = ofShortage(err)
		}
		started <- result{etcd, err}
	}()
	for {
		select {
		case got := <-started:
			return got.etcd, got.err
		case cause := <-gaveUp:
			if !errors.Is(cause, errGoneBack) { // raft runs by then, and Err has it
				return nil, damaged(fmt.Errorf("etcd gives up: %w", cause))
			}
		}
	}
}

// isDamage reports whether an error of etcd is about the content of the write-ahead log.
func isDamage(err error) bool {
	for _, of := range []error{wal.ErrCRCMismatch, wal.ErrFileNotFound, wal.ErrSnapshotNotFound, wal.ErrSnapshotMismatch,
		wal.ErrSliceOutOfRange, wal.ErrMetadataConflict, io.ErrUnexpectedEOF} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// damaged returns an error about data that cannot be read, with the remedy.
func damaged(err error) error {
	if isShortage(err) {
		return ofShortage(err)
	}
	return fmt.Errorf("%w; if its data is damaged, add the member again without data, or restore a backup", err)
}
