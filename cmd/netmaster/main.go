// Command netmaster is the controller: it accepts the wanted configuration over REST and stores the cluster's
// state in etcd. One of any number of netmasters is the leader; the others forward requests to it and are
// standbys.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/daemonflags"
	"github.com/contiv/netplugin/utils/k8sutils"
	"github.com/contiv/netplugin/utils/timerslack"
)

func main() {
	if isWorker(os.Args) {
		os.Exit(work(os.Stdin, os.Stdout, os.Stderr))
	}
	if err := timerslack.Rerun(); err != nil {
		fmt.Fprintf(os.Stderr, "netmaster: %v; going on without\n", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run parses and validates the arguments, serves, and returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	var opts options
	cli.VersionPrinter = func(*cli.Command) { fmt.Fprintln(out, buildinfo.Get()) }
	cmd := command(&opts)
	cmd.Writer, cmd.ErrWriter = out, errOut
	cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
		config, err := opts.config(cmd.Args().Slice())
		if err != nil {
			return invalid{err}
		}
		return serve(ctx, &opts, config)
	}
	err := cmd.Run(ctx, args)
	var wrong invalid
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintf(errOut, "netmaster: invalid configuration:\n%s\n", wrong)
		return daemonflags.ExitCode(wrong.error)
	}
	fmt.Fprintf(errOut, "netmaster: %s\n", err)
	return 1
}

// hashing is the argument with which a netmaster starts the program to hash passwords.
const hashing = "hash-passwords"

func isWorker(args []string) bool { return len(args) == 2 && args[1] == hashing }

// work hashes passwords until the end of the input.
func work(in io.Reader, out, errOut io.Writer) int {
	accounts.GiveWay()
	if err := accounts.Serve(in, out); err != nil {
		fmt.Fprintf(errOut, "netmaster %s: %v\n", hashing, err)
		return 1
	}
	return 0
}

// serve runs the daemon until a signal arrives.
func serve(ctx context.Context, opts *options, config daemon.Config) error {
	if err := opts.common.Logging.Apply(logrus.StandardLogger()); err != nil {
		return invalid{err}
	}
	k8sutils.LogTo(logrus.WithField("component", "kubernetes"))
	reread := make(chan os.Signal, 1)
	signal.Notify(reread, syscall.SIGHUP)
	defer signal.Stop(reread)
	config.Security.Reread = reread
	workers := accounts.NewWorkers(logrus.WithField("component", "accounts"), "/proc/self/exe", hashing)
	defer workers.Close()
	config.API.HashWorkers = workers
	d, err := daemon.New(config)
	if err != nil {
		return invalid{err}
	}
	if err = d.Run(ctx); errors.As(err, new(daemon.StoreExposed)) {
		return invalid{err}
	}
	return err
}

// invalid marks errors that the user has to correct.
type invalid struct{ error }

func (i invalid) Unwrap() error { return i.error }
