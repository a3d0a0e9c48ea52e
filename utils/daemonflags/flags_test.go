package daemonflags

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/utils/fault"
)

// parse runs a command that only has the shared flags.
func parse(t *testing.T, args ...string) (*Common, error) {
	t.Helper()
	var c Common
	cmd := &cli.Command{
		Name: "netmaster", Flags: Flags("netmaster", &c), Writer: io.Discard, ErrWriter: io.Discard,
		Action: func(context.Context, *cli.Command) error { return nil },
	}
	return &c, cmd.Run(context.Background(), append([]string{"netmaster"}, args...))
}

func violations(c *Common) []string {
	var texts []string
	for _, err := range c.Validate() {
		texts = append(texts, err.Error())
	}
	return texts
}

func TestMinimalFlagsAreValidAndGetTheDefaults(t *testing.T) {
	c, err := parse(t, "--mode", "CNI", "--netmode", "vxlan", "--fwdmode", "routing")
	if err != nil {
		t.Fatal(err)
	}
	if got := violations(c); got != nil {
		t.Fatalf("violations %q", got)
	}
	if c.Mode != "cni" || c.Logging.Level != "INFO" || c.Logging.SyslogURL != "udp://127.0.0.1:514" {
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff([]string{"http://127.0.0.1:2379"}, c.Store.Endpoints); diff != "" {
		t.Error(diff)
	}
}

func TestEveryAliasSetsItsFlag(t *testing.T) {
	c, err := parse(t, "--cluster-mode=docker", "--network-mode=vlan", "--forward-mode=bridge", "--etcd=http://a:1,,https://b:2",
		"--json-log", "--syslog")
	if err != nil {
		t.Fatal(err)
	}
	if got := violations(c); got != nil {
		t.Fatalf("violations %q", got)
	}
	if c.Mode != "docker" || c.NetMode != "vlan" || c.FwdMode != "bridge" || !c.Logging.JSON || !c.Logging.Syslog {
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff([]string{"http://a:1", "https://b:2"}, c.Store.Endpoints); diff != "" {
		t.Error(diff)
	}
}

func TestTwoAliasesOfOneFlagAreRefused(t *testing.T) {
	if _, err := parse(t, "--mode=cni", "--cluster-mode=docker"); err == nil {
		t.Fatal("accepted")
	}
}

func TestFlagBeatsEnvironmentBeatsDefault(t *testing.T) {
	t.Setenv("CONTIV_NETMASTER_MODE", "docker")
	t.Setenv("CONTIV_NETMASTER_LOG_LEVEL", "debug")
	t.Setenv("CONTIV_NETMASTER_USE_JSON_LOG", "true")
	c, err := parse(t, "--mode", "cni")
	if err != nil {
		t.Fatal(err)
	}
	if c.Mode != "cni" || c.Logging.Level != "debug" || !c.Logging.JSON {
		t.Errorf("got %+v", c)
	}
}

func TestEmptyEnvironmentVariableIsUnset(t *testing.T) {
	t.Setenv("CONTIV_NETMASTER_LOG_LEVEL", "")
	t.Setenv("CONTIV_NETMASTER_USE_SYSLOG", "")
	c, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if c.Logging.Level != "INFO" || c.Logging.Syslog {
		t.Errorf("got %+v", c)
	}
}

func TestAllViolationsAreReportedAtOnce(t *testing.T) {
	c, err := parse(t, "--mode=mesos", "--netmode=gre", "--log-level=loud", "--etcd=ftp://x:1,http://y", "--etcd-cert=c.pem",
		"--consul=http://z:8500", "--syslog-url=514", "--etcd-user=root")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`--log-level "loud": want DEBUG, INFO, WARN or ERROR`,
		`--syslog-url: "514": scheme must be udp, tcp or unix`,
		`--mode "mesos": want docker, kubernetes, swarm-mode or cni`,
		`--netmode "gre": want vlan or vxlan`,
		`--fwdmode is required: bridge or routing`,
		`--consul-endpoints "http://z:8500": consul is not supported, use --etcd-endpoints`,
		`--etcd-endpoints: "ftp://x:1": scheme must be http or https`,
		`--etcd-endpoints: "http://y": "y": want address:port`,
		`--etcd-cert and --etcd-key: give both or none`,
		`--etcd-user: want name:password`,
	}
	if diff := cmp.Diff(want, violations(c)); diff != "" {
		t.Error(diff)
	}
}

func TestEveryEncapsulationGoesWithEveryForwarding(t *testing.T) {
	for _, encapsulation := range netModes {
		for _, forwarding := range fwdModes {
			c, err := parse(t, "--mode=cni", "--netmode="+encapsulation, "--fwdmode="+forwarding)
			if err != nil {
				t.Fatal(err)
			}
			if got := violations(c); len(got) != 0 {
				t.Errorf("%s with %s: %q", encapsulation, forwarding, got)
			}
		}
	}
}

// Transient failures are retried, and wrong settings end the program at once.
func TestOnlyWhatIsWrongIsNotTriedAgain(t *testing.T) {
	away, wrong := fault.New(fault.Unavailable, "the host has no address in 192.0.2.0/24"), errors.New("--vxlan-port 0: must be 1 to 65535")
	file := func(err error) error { return fmt.Errorf("key: %w", &fs.PathError{Op: "open", Path: "key", Err: err}) }
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"an address that is not there yet": {fmt.Errorf("--vtep-ip: %w", away), 1},
		"a flag":                           {wrong, ExitInvalid},
		"both":                             {errors.Join(away, wrong), ExitInvalid},
		"several addresses":                {errors.Join(away, away), 1},
		"a disk that is full":              {file(syscall.ENOSPC), 1},
		"a disk that is full at the end":   {&os.LinkError{Op: "rename", Err: syscall.ENOSPC}, 1},
		"a file that there is not":         {file(syscall.ENOENT), ExitInvalid},
		"a directory in place of a file":   {file(syscall.EISDIR), ExitInvalid},
		"a file that nobody may read":      {file(syscall.EACCES), ExitInvalid},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%s: exit status %d, want %d", name, got, c.want)
		}
	}
}
