package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/logging"
)

const (
	// keptFor is how long an idle worker is retained, with the memory of a hash.
	keptFor = 10 * time.Second
	// patience is how long a worker may take for a hash: it starts in 50 ms and hashes in 100 ms, but on a machine
	// that is always busy it never hashes.
	patience = time.Second
	// pause is how long no worker is used after one that took too long: each hash would take that much longer.
	pause = time.Minute
)

// Workers are processes that hash (Serve), so that requests do not wait for the processor behind a hash. Threads
// of this process cannot have such a priority: the garbage collector waits for all of them, and any of them may
// run a hash. Workers are started on demand, and end some seconds later. This process computes the hashes that
// they do not complete in time.
type Workers struct {
	command  []string // program and arguments
	keptFor  time.Duration
	patience time.Duration
	log      *logrus.Entry
	trouble  logging.Trouble

	ctx    context.Context
	stop   context.CancelFunc
	ending sync.WaitGroup

	mu      sync.Mutex
	resting []*worker // idle ones
	late    time.Time // when a worker took too long
}

// NewWorkers returns workers of a command that calls Serve with its standard input and output. Call Close.
func NewWorkers(log *logrus.Entry, command ...string) *Workers {
	w := &Workers{command: command, keptFor: keptFor, patience: patience, log: log}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// Close ends the workers and waits for them. Later tasks run in this process.
func (w *Workers) Close() {
	w.mu.Lock()
	w.stop() // no worker is started after this
	w.mu.Unlock()
	w.ending.Wait()
}

// do runs a task, by a worker or in this process.
func (w *Workers) do(t task) result {
	if w == nil || w.paused() {
		return t.do()
	}
	r, err := w.ask(t)
	if err == nil {
		return r
	}
	if w.ctx.Err() == nil && w.trouble.IsNews(err, time.Now()) {
		w.log.WithError(err).Warn("a process that hashes passwords failed, this one hashes instead")
	}
	return t.do()
}

func (w *Workers) paused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.late.IsZero() && time.Since(w.late) < pause
}

// ask passes a task to a worker. A worker that fails is ended.
func (w *Workers) ask(t task) (r result, err error) {
	p, err := w.take()
	if err != nil {
		return r, err
	}
	late := time.AfterFunc(w.patience, p.kill)
	if err = p.tasks.Encode(t); err == nil {
		err = p.results.Decode(&r)
	}
	if !late.Stop() {
		w.mu.Lock()
		w.late = time.Now()
		w.mu.Unlock()
		err = errors.Join(err, fmt.Errorf("no result within %s", w.patience))
	}
	if err != nil {
		p.kill()
		return r, err
	}
	w.rest(p)
	return r, nil
}

// worker is one process.
type worker struct {
	tasks   *json.Encoder
	results *json.Decoder
	input   io.Closer // closing it ends an idle worker
	kill    context.CancelFunc
	tired   *time.Timer
}

// take returns an idle worker, or a new one.
func (w *Workers) take() (*worker, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.resting) > 0 {
		p := w.resting[len(w.resting)-1]
		w.resting = w.resting[:len(w.resting)-1]
		if p.tired.Stop() {
			return p, nil
		}
	}
	return w.start()
}

// rest retains a worker for the next task.
func (w *Workers) rest(p *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.tired = time.AfterFunc(w.keptFor, func() { _ = p.input.Close() })
	w.resting = append(w.resting, p)
}

// start starts a process, without the environment of this one.
func (w *Workers) start() (*worker, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	ctx, kill := context.WithCancel(w.ctx)
	cmd := exec.CommandContext(ctx, w.command[0], w.command[1:]...)
	cmd.Env = []string{}
	in, err := cmd.StdinPipe()
	var out io.Reader
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		kill()
		return nil, fmt.Errorf("run %s: %w", w.command[0], err)
	}
	w.ending.Go(func() {
		defer kill()
		_ = cmd.Wait()
	})
	return &worker{tasks: json.NewEncoder(in), results: json.NewDecoder(out), input: in, kill: kill}, nil
}
