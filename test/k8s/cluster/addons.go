package cluster

import (
	"context"
	"embed"
	"os"
)

//go:embed files/*.yaml
var manifests embed.FS

// apply has the API server make the objects of a manifest.
func (c *Cluster) apply(ctx context.Context, manifest string) error {
	data, err := manifests.ReadFile("files/" + manifest)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.file(manifest), data, 0o644); err != nil {
		return err
	}
	return await(ctx, func() error { // right after its start it lacks namespaces
		_, err := c.Kubectl(ctx, "apply", "--filename", c.file(manifest))
		return err
	})
}

// startDNS has CoreDNS run, as a deployment behind a service.
func (c *Cluster) startDNS(ctx context.Context) error { return c.apply(ctx, "dns.yaml") }
