package cluster

import (
	"bytes"
	"context"
	"embed"
	"os"
)

//go:embed files/*.yaml
var manifests embed.FS

// apply creates the objects of a manifest.
func (c *Cluster) apply(ctx context.Context, manifest string) error {
	if err := c.writeManifest(manifest); err != nil {
		return err
	}
	return c.applyFile(ctx, c.file(manifest))
}

func (c *Cluster) applyFile(ctx context.Context, path string) error {
	return await(ctx, func() error { // right after the API server's start, namespaces are missing
		_, err := c.Kubectl(ctx, "apply", "--filename", path)
		return err
	})
}

// writeManifest writes an embedded manifest into the cluster's directory, with the address of its DNS.
func (c *Cluster) writeManifest(name string) error {
	data, err := manifests.ReadFile("files/" + name)
	if err != nil {
		return err
	}
	data = bytes.ReplaceAll(data, []byte("DNS_ADDRESS"), []byte(c.first().dns))
	return os.WriteFile(c.file(name), data, 0o644)
}

// startDNS starts CoreDNS, as a deployment with a service.
func (c *Cluster) startDNS(ctx context.Context) error { return c.apply(ctx, "dns.yaml") }
