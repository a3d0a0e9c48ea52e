package main

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/contiv/netplugin/netmaster/daemon"
)

// configured returns the configuration of a command line.
func configured(t *testing.T, args ...string) (config daemon.Config, err error) {
	t.Helper()
	var o options
	cmd := command(&o)
	cmd.Action = func(context.Context, *cli.Command) error {
		config, err = o.config(nil)
		return err
	}
	return config, cmd.Run(t.Context(), append([]string{"netmaster"}, args...))
}

// A manifest does not know the IP family of its node's address.
func TestTheManifestStartsNetmasterAtANodeOfEitherVersionOfIP(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kubernetes/base/netmaster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	deployment, _, _ := strings.Cut(string(text), "\n---\n")
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict([]byte(deployment), &d); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"192.0.2.1": "192.0.2.1:9999", "2001:db8::1": "[2001:db8::1]:9999"} {
		t.Setenv("NODE_NAME", "node1")
		var args []string
		for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
			if strings.HasPrefix(arg, "--join-pod-token-file=") {
				continue // it is in pods only
			}
			args = append(args, strings.NewReplacer("$(HOST_IP)", host, "$(NODE_NAME)", "node1").Replace(arg))
		}
		config, err := configured(t, args...)
		if err != nil || config.Control != want || config.Listen != "0.0.0.0:9999" {
			t.Errorf("at %s: %v, control %q, listens at %q", host, err, config.Control, config.Listen)
		}
		if !slices.ContainsFunc(config.Security.Addresses, func(a netip.Addr) bool { return a.String() == host }) {
			t.Errorf("at %s: the certificate is for %v", host, config.Security.Addresses)
		}
	}
}

// The registered address of a netmaster has one form, however it was written.
func TestAddressesAreWrittenInOneWay(t *testing.T) {
	for given, want := range map[string]string{
		"[192.0.2.1]:9999": "192.0.2.1:9999", "[::ffff:192.0.2.1]:9999": "192.0.2.1:9999", "[2001:DB8:0::1]:09999": "[2001:db8::1]:9999",
	} {
		config, err := configured(t, "--mode=cni", "--netmode=vxlan", "--fwdmode=routing", "--insecure", "--external-address", given, "--internal-address", given)
		if err != nil || config.Control != want || config.Listen != want {
			t.Errorf("%s: %v, control %q, listens at %q", given, err, config.Control, config.Listen)
		}
	}
}
