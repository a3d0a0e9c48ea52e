// Package imagefile builds container images without a container engine: layers of files of this machine, and
// archives of images in the format of `docker save`, which `ctr images import`, `docker load` and `podman load`
// read. Builds are reproducible.
package imagefile

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
)

// Image is a container image.
type Image struct {
	Names      []string // repository:tag
	Layers     []*Layer // from the lowest
	Entrypoint []string
	Cmd        []string
}

// The two index files of an image archive, as `docker save` writes them and containerd reads them.
type manifest struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

type config struct {
	Architecture string       `json:"architecture"`
	OS           string       `json:"os"`
	Config       configConfig `json:"config"`
	RootFS       rootFS       `json:"rootfs"`
}

type configConfig struct {
	Env        []string `json:"Env"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// Write writes an archive of the images to path, atomically.
func Write(path string, arch string, images ...Image) (err error) {
	partial := path + ".partial"
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(partial))
			return
		}
		err = os.Rename(partial, path)
	}()
	a := &archive{tar: tar.NewWriter(file), digests: map[*Layer]string{}}
	var manifests []manifest
	for _, image := range images {
		m, err := a.image(arch, image)
		if err != nil {
			return err
		}
		manifests = append(manifests, m)
	}
	data, err := json.Marshal(manifests)
	if err != nil {
		return err
	}
	return errors.Join(a.add("manifest.json", data), a.tar.Close())
}

type archive struct {
	tar     *tar.Writer
	digests map[*Layer]string // of written layers
}

func (a *archive) add(name string, content []byte) error {
	if err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := a.tar.Write(content)
	return err
}

func (a *archive) image(arch string, image Image) (manifest, error) {
	m := manifest{RepoTags: image.Names}
	c := config{Architecture: arch, OS: "linux", RootFS: rootFS{Type: "layers"}, Config: configConfig{
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Entrypoint: image.Entrypoint,
		Cmd:        image.Cmd,
	}}
	for _, layer := range image.Layers {
		digest, err := a.layer(layer)
		if err != nil {
			return m, err
		}
		m.Layers = append(m.Layers, layerFile(digest))
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, "sha256:"+digest)
	}
	data, err := json.Marshal(c)
	if err != nil {
		return m, err
	}
	sum := sha256.Sum256(data)
	m.Config = hex.EncodeToString(sum[:]) + ".json"
	return m, a.add(m.Config, data)
}

func layerFile(digest string) string { return digest + "/layer.tar" }

func (a *archive) layer(l *Layer) (digest string, err error) {
	if digest, ok := a.digests[l]; ok {
		return digest, nil
	}
	if digest, err = l.close(); err != nil {
		return "", err
	}
	a.digests[l] = digest
	return digest, a.add(layerFile(digest), l.content.Bytes())
}
