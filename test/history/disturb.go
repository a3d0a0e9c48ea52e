package history

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// Disturb ends the leader with a signal, restarts it and waits until every netmaster serves. It returns how long
// it took until another one was the leader.
func (c *Cluster) Disturb(ctx context.Context, signal syscall.Signal) (takeover time.Duration, err error) {
	n, err := c.Leader(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := n.cmd.Process.Signal(signal); err != nil {
		return 0, err
	}
	if _, err := c.leaderBut(ctx, n); err != nil {
		return 0, err
	}
	takeover = time.Since(began)
	select {
	case <-n.done:
	case <-ctx.Done():
		return takeover, fmt.Errorf("netmaster %s does not end on %s", n.name, signal)
	}
	if err := c.start(n); err != nil {
		return takeover, err
	}
	return takeover, testkit.Until(ctx, "netmaster "+n.name+" serves again", func() bool { return role(ctx, n) != "" })
}

// Suspend stops the leader, with its member of the store, until there is another leader, and then continues it. It
// returns how long the takeover took.
func (c *Cluster) Suspend(ctx context.Context) (takeover time.Duration, err error) {
	n, err := c.Leader(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = suspended(func() error {
		_, err := c.leaderBut(ctx, n)
		takeover = time.Since(began)
		return err
	}, n)
	if err != nil {
		return takeover, err
	}
	return takeover, c.allServe(ctx)
}

// Interrupt stops the other netmasters, with their members of the store, for half a lease: the store has no
// majority, and the leader remains the leader. It returns how long it took until all served again.
func (c *Cluster) Interrupt(ctx context.Context) (time.Duration, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return 0, err
	}
	var others []*node
	for _, n := range c.nodes {
		if n != leader {
			others = append(others, n)
		}
	}
	began := time.Now()
	err = suspended(func() error {
		select {
		case <-time.After(leaderTTL / 2):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, others...)
	if err != nil {
		return 0, err
	}
	return time.Since(began), c.allServe(ctx)
}

// suspended stops processes while happens runs.
func suspended(happens func() error, nodes ...*node) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.cmd.Process.Signal(syscall.SIGSTOP))
	}
	errs = append(errs, happens())
	for _, n := range nodes {
		errs = append(errs, n.cmd.Process.Signal(syscall.SIGCONT))
	}
	return errors.Join(errs...)
}

// allServe waits until every netmaster serves.
func (c *Cluster) allServe(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := testkit.Until(ctx, "netmaster "+n.name+" serves", func() bool { return role(ctx, n) != "" }); err != nil {
			return err
		}
	}
	return nil
}
