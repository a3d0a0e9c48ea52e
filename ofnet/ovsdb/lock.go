package ovsdb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// A client may ask for a lock (RFC 7047, 4.1.8), so that of two programs that
// write the same rows only one does. The server gives a lock to one connection
// at a time and takes it back when that ends; others wait in the order in which
// they asked. While a client waits, its copy follows the database as usual, but
// the server refuses its transactions.

// lockState is what the server has said of our lock on this connection.
type lockState uint8

const (
	lockUnknown   lockState = iota // nothing yet, or not connected
	lockHeld                       // it is ours
	lockElsewhere                  // another connection has it
)

// Owner tells whether transactions can be made: the copy follows the server and
// the lock, if there is one, is ours.
func (c *Client) Owner() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.conn != nil && (c.config.Lock == "" || c.lock == lockHeld)
}

// Excluded tells whether another connection has the lock, as far as is known:
// an interrupted connection changes nothing in the answer of those who have
// never lost the lock.
func (c *Client) Excluded() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.lock == lockElsewhere
}

// askLock asks for the lock, on a connection that is not in use yet. The
// server answers at once whether we have it or have to wait.
func (c *Client) askLock(ctx context.Context, conn *Conn) error {
	if c.config.Lock == "" {
		return nil
	}
	err := conn.call(ctx, "lock", []any{c.config.Lock}, func(raw json.RawMessage) error {
		var answer struct {
			Locked bool `json:"locked"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		c.noteLock(answer.Locked)
		return nil
	})
	if err != nil {
		return fmt.Errorf("lock %s: %w", c.config.Lock, err)
	}
	return nil
}

// lockNotified takes "locked" and "stolen", which name the lock.
func (c *Client) lockNotified(held bool, params json.RawMessage) error {
	var names []string
	if err := json.Unmarshal(params, &names); err != nil {
		return err
	}
	if len(names) == 1 && names[0] == c.config.Lock {
		c.noteLock(held)
	}
	return nil
}

func (c *Client) noteLock(held bool) {
	c.mu.Lock()
	c.lock = lockElsewhere
	if held {
		c.lock = lockHeld
	}
	c.mu.Unlock()
	c.tell()
}

// transactLocked makes a transaction that the server refuses unless the lock
// is ours at that moment. The check stands at the end, where it does not change
// the numbers of the caller's operations.
func (c *Client) transactLocked(ctx context.Context, conn *Conn, ops []Operation) ([]Result, error) {
	guarded := append(slices.Clone(ops), Assert(c.config.Lock))
	results, err := conn.Transact(ctx, c.config.Database, guarded...)
	if err != nil {
		return nil, err
	}
	return results[:len(ops)], nil
}
