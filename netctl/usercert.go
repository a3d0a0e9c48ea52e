package netctl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

var userCertTool = tool{
	name: "cert", usage: "Get a client certificate of seven days for a user, with a new key", args: "[USER]", run: certifyUser,
	flags: func() []cli.Flag {
		return []cli.Flag{
			&cli.StringFlag{Name: "dir", Value: ".", TakesFile: true, OnlyOnce: true, Usage: "folder of the files that are written: <user>.crt, <user>.key and ca.pem (<user>.ca.pem where that has other authorities)"},
			&cli.BoolFlag{Name: "list", Usage: "show the certificates of the user that count instead, and who had them made"},
			&cli.BoolFlag{Name: "revoke", Usage: "end all certificates of the user instead, which are refused from now on"},
		}
	},
	more: "Without an argument it is for yourself, and you must have logged in: with a certificate alone there is no other one, but for admins, who may have one made for any local user. " +
		"The key does not leave this machine. Use the files with --cert, --key and --cacert. " +
		"Certificates end with a new password, too.",
}

func certifyUser(s *session) error {
	if s.cmd.Bool("list") && s.cmd.Bool("revoke") {
		return usageError{"--list and --revoke go not together", s.cmd}
	}
	name := s.cmd.Args().First()
	if name == "" {
		who, err := s.client.WhoAmI(s.ctx)
		if err != nil {
			return err
		}
		own, isUser := strings.CutPrefix(who.Identity, "user/")
		if !isUser {
			return usageError{"you are " + who.Identity + ": name the user that the certificate is for", s.cmd}
		}
		name = own
	}
	if s.cmd.Bool("revoke") {
		return s.done("Revoked the certificates of user "+name, s.client.EndUserCertificates(s.ctx, name))
	}
	if s.cmd.Bool("list") {
		return listCertificates(s, name)
	}
	dir := s.cmd.String("dir")
	if err := durable.MakeDir(dir); err != nil {
		return fileError{err}
	}
	if name != filepath.Base(name) {
		return fault.New(fault.Invalid, "user %.64q: that cannot be the name of a file", name)
	}
	key, request, err := newKey()
	if err != nil {
		return err
	}
	made, err := s.client.CertifyUser(s.ctx, name, request)
	if err != nil {
		return err
	}
	keyFile, certFile, caFile := filepath.Join(dir, name+".key"), filepath.Join(dir, name+".crt"), filepath.Join(dir, "ca.pem")
	if there, err := os.ReadFile(caFile); err == nil && !isPartOf(there, []byte(made.Authorities)) {
		others := caFile
		caFile = filepath.Join(dir, name+".ca.pem")
		fmt.Fprintf(s.errOut, "warning: %s has authorities that this cluster does not have now, and is left as it is; those of this cluster are in %s\n", others, caFile)
	}
	for _, file := range []struct {
		path string
		text []byte
	}{{keyFile, key}, {certFile, []byte(made.Certificate)}, {caFile, []byte(made.Authorities)}} {
		if err := durable.Write(file.path, file.text); err != nil {
			return fileError{err}
		}
	}
	fmt.Fprintf(s.errOut, "Certificate of user %s, until %s. Use it with:\n", name, moment(made.Expires))
	_, err = fmt.Fprintf(s.out, "--cert %s --key %s --cacert %s\n", certFile, keyFile, caFile)
	return err
}

// isPartOf reports whether a bundle has certificates and all of them are in whole, which may then replace it. A
// further certificate may be an earlier CA of the cluster, or one of another cluster that the user has added.
func isPartOf(bundle, whole []byte) bool {
	in := map[string]bool{}
	for block, rest := pem.Decode(whole); block != nil; block, rest = pem.Decode(rest) {
		in[string(block.Bytes)] = true
	}
	block, rest := pem.Decode(bundle)
	if block == nil {
		return false
	}
	for ; block != nil; block, rest = pem.Decode(rest) {
		if !in[string(block.Bytes)] {
			return false
		}
	}
	return true
}

func listCertificates(s *session, name string) error {
	all, err := s.client.UserCertificates(s.ctx, name)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, c := range all {
		rows = append(rows, printables(c.Key, moment(c.Created), moment(c.Expires), c.Creator))
	}
	return s.printTable([]string{"Key", "Created", "Expires", "Creator"}, rows)
}

// newKey returns a new key, in PEM, and a certificate request for it, in DER.
func newKey() (text, request []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), request, err
}
