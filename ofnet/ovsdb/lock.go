package ovsdb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// A client may request a lock (RFC 7047, 4.1.8), so that only one of two programs writes the same rows. The server
// grants a lock to one connection at a time and releases it when that connection ends; others wait in the order of
// their requests. While a client waits, its copy follows the database as usual, but the server refuses its
// transactions.

// lockState is the state of the lock as the server has reported it on this connection.
type lockState uint8

const (
	lockUnknown   lockState = iota // nothing reported yet, or not connected
	lockHeld                       // this connection has it
	lockElsewhere                  // another connection has it
)

// Owner reports whether transactions are possible: the copy follows the server, and this client has the lock, if
// one is configured.
func (c *Client) Owner() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.conn != nil && (c.config.Lock == "" || c.lock == lockHeld)
}

// Excluded reports whether another connection has the lock, as far as is known. An interrupted connection does not
// make it true for a client that has had the lock until then.
func (c *Client) Excluded() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.lock == lockElsewhere
}

// askLock requests the lock on a connection that is not in use yet. The server's response says whether the lock
// was granted or has to be waited for.
func (c *Client) askLock(ctx context.Context, conn *connection) error {
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

// lockNotified handles "locked" and "stolen", which name the lock.
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

// transactLocked runs a transaction that the server refuses unless this connection has the lock at that moment.
// The assertion is the last operation, so that the caller's operations keep their indices.
func (c *Client) transactLocked(ctx context.Context, conn *connection, ops []Operation) ([]Result, error) {
	guarded := append(slices.Clone(ops), assertLock(c.config.Lock))
	results, err := conn.Transact(ctx, c.config.Database, guarded...)
	if err != nil {
		return nil, err
	}
	return results[:len(ops)], nil
}
