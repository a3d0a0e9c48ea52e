package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// forward starts a process that forwards a port of this machine to the API server, and writes the administrator's
// kubeconfig for it. The process ends with the cluster.
func (c *Cluster) forward(ctx context.Context) error {
	portFile := c.file("forward.port")
	log, err := os.Create(c.file("forward.log"))
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own copy
	cmd := exec.Command(filepath.Join(c.Bin, "k8scluster"), "--dir", c.Dir, "forward", portFile)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // ends with the cluster; its log has the reason
	return await(ctx, func() error {
		address, err := os.ReadFile(portFile)
		if err != nil {
			return err
		}
		return c.writeKubeconfig(c.Kubeconfig(), "https://"+string(address), admin)
	})
}

// Forward accepts connections on loopback and forwards them to the API server, until the context is done or the
// cluster ends. It writes its address to portFile.
func (c *Cluster) Forward(ctx context.Context, portFile string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for c.control().Alive() && ctx.Err() == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		cancel()
		listener.Close()
	})
	if err := writeWhole(portFile, listener.Addr().String()); err != nil {
		return err
	}
	target := strings.TrimPrefix(c.apiURL(), "https://")
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("forward to the API server: %w", err)
		}
		running.Go(func() {
			server, err := c.control().DialContext(ctx, "tcp", target)
			if err != nil {
				conn.Close()
				return
			}
			carry(ctx, conn, server)
		})
	}
}

// carry copies in both directions until both have ended, and closes both connections when ctx is done.
func carry(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { a.Close(); b.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			io.Copy(way[0], way[1])            // the end of one direction is no error
			way[0].(*net.TCPConn).CloseWrite() // nor is an earlier close
		})
	}
	both.Wait()
	a.Close()
	b.Close()
}

// writeWhole writes a file atomically for readers.
func writeWhole(path, content string) error {
	partial := path + ".partial"
	return errors.Join(os.WriteFile(partial, []byte(content), 0o644), os.Rename(partial, path))
}
