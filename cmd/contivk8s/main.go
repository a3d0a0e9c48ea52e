// Command contivk8s is the CNI plugin that container runtimes run.
//
// It lives for one command: it reads the CNI environment and the network configuration, passes both to the CNI
// server in netplugin over a unix socket and prints the response. VERSION needs no server, DEL succeeds without
// one (the deletion is queued on disk), ADD waits a while for one that is restarting.
//
// A runtime runs it several times per pod, so it must start fast: it imports neither an HTTP library nor a package
// with costly initialization.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/timerslack"
)

func main() {
	if slices.ContainsFunc(os.Args[1:], isVersionFlag) {
		fmt.Println(buildinfo.Get())
		return
	}
	var run invocation
	versions, failed := spokenVersions()
	if failed != nil {
		os.Exit(run.fail(failed))
	}
	err := skel.PluginMainFuncsWithError(skel.CNIFuncs{
		Add:    run.command(cniwire.Add),
		Del:    run.command(cniwire.Del),
		Check:  run.command(cniwire.Check),
		GC:     run.command(cniwire.GC),
		Status: run.command(cniwire.Status),
	}, versions, "contivk8s connects containers to contiv networks; container runtimes run it")
	if err != nil {
		os.Exit(run.fail(err))
	}
}

// spokenVersions returns the accepted versions of the CNI specification. DEL has no result and is carried out
// whatever the configuration says: a container whose configuration has changed must be removable.
func spokenVersions() (version.PluginInfo, *types.Error) {
	versions := netconf.Versions()
	if os.Getenv("CNI_COMMAND") != cniwire.Del {
		return version.PluginSupports(versions...), nil
	}
	// Without this, skel fails after a DEL whose CNI_NETNS is by now this process's own namespace: /proc/<pid>/ns/net of a
	// container that has ended, whose process id the host has given to another process.
	if err := os.Setenv("CNI_NETNS_OVERRIDE", "true"); err != nil {
		return nil, types.NewError(types.ErrInternal, err.Error(), "")
	}
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, types.NewError(types.ErrIOFailure, fmt.Sprintf("read network configuration: %v", err), "")
	}
	again, feed, err := os.Pipe()
	if err != nil {
		return nil, types.NewError(types.ErrIOFailure, fmt.Sprintf("network configuration: %v", err), "")
	}
	os.Stdin = again
	go func() {
		_, _ = feed.Write(stdin) // fails when nothing reads any more
		_ = feed.Close()
	}()
	return version.PluginSupports(append(versions, readSettings(stdin).CNIVersion)...), nil
}

func isVersionFlag(arg string) bool {
	return slices.Contains([]string{"-version", "--version", "-v"}, arg)
}

// invocation is the one command this process carries out.
type invocation struct {
	settings settings
}

// command returns the function that skel calls for a command.
func (i *invocation) command(name string) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		i.settings = readSettings(args.StdinData)
		log := openLog(i.settings)
		_ = timerslack.SetThreads() // without the privilege it waits like any program
		result, err := i.settings.carryOut(cniwire.Request{
			Command:     name,
			ContainerID: args.ContainerID,
			Netns:       args.Netns,
			IfName:      args.IfName,
			Args:        args.Args,
			Path:        args.Path,
			Stdin:       args.StdinData,
		})
		log.outcome(name, args, err)
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(result); err != nil {
			return types.NewError(types.ErrIOFailure, fmt.Sprintf("print result: %v", err), "")
		}
		return nil
	}
}

// fail prints an error as the CNI specification requires and returns the exit code.
func (i *invocation) fail(e *types.Error) int {
	document := struct {
		CNIVersion string `json:"cniVersion,omitempty"`
		*types.Error
	}{i.settings.CNIVersion, e}
	data, err := json.MarshalIndent(document, "", "    ")
	if err == nil {
		_, err = os.Stdout.Write(data)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "contivk8s:", e, err)
	}
	return 1
}
