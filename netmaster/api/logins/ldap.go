package logins

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/directory"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

func formOfDirectory(d mastercfg.Directory) contivmodel.LDAPConfig {
	return contivmodel.LDAPConfig{Server: &d.Server, Port: &d.Port, BaseDN: &d.BaseDN, Account: &d.Account, StartTLS: &d.StartTLS,
		SkipVerify: &d.SkipVerify, IssuedTo: &d.IssuedTo, Authorities: &d.Authorities, UserAttribute: &d.UserAttribute}
}

// updateDirectory applies a form to the record. It encrypts the password for its key.
func (l *Logins) updateDirectory(f contivmodel.LDAPConfig, d *mastercfg.Directory) error {
	for _, field := range []struct{ from, to *string }{{f.Server, &d.Server}, {f.BaseDN, &d.BaseDN}, {f.Account, &d.Account},
		{f.IssuedTo, &d.IssuedTo}, {f.Authorities, &d.Authorities}, {f.UserAttribute, &d.UserAttribute}} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	for _, field := range []struct{ from, to *bool }{{f.StartTLS, &d.StartTLS}, {f.SkipVerify, &d.SkipVerify}} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	if f.Port != nil {
		d.Port = *f.Port
	}
	d.UserAttribute = cmp.Or(d.UserAttribute, directory.DefaultUserAttribute)
	if err := checkDirectory(*d); err != nil {
		return err
	}
	if f.Password == nil {
		return nil
	}
	if *f.Password == "" { // with an empty password, a directory accepts the bind as anonymous (RFC 4513, 5.1.2)
		return fault.New(fault.Invalid, "service_account_password: it is empty").WithField("service_account_password")
	}
	if len(*f.Password) > maxDirectoryText {
		return fault.New(fault.TooLarge, "service_account_password: more than %d bytes", maxDirectoryText).WithField("service_account_password")
	}
	sealed, err := l.config.Keyring.Seal(mastercfg.DirectoryKey, *f.Password)
	d.Password = sealed
	return err
}

const (
	maxDirectoryText = 1024
	maxAuthorities   = 64 << 10
)

var attributeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

func checkDirectory(d mastercfg.Directory) error {
	for _, f := range []struct{ field, text string }{{"server", d.Server}, {"base_dn", d.BaseDN}, {"service_account_dn", d.Account}} {
		if f.text == "" || len(f.text) > maxDirectoryText {
			return fault.New(fault.Invalid, "%s: want 1 to %d bytes", f.field, maxDirectoryText).WithField(f.field)
		}
	}
	switch {
	case d.Port < 1 || d.Port > 65535:
		return fault.New(fault.Invalid, "port %d: want 1 to 65535", d.Port).WithField("port")
	case !attributeName.MatchString(d.UserAttribute):
		return fault.New(fault.Invalid, "user_attribute %.64q: want the name of an attribute, such as uid", d.UserAttribute).WithField("user_attribute")
	case len(d.IssuedTo) > maxDirectoryText:
		return fault.New(fault.Invalid, "tls_cert_issued_to: more than %d bytes", maxDirectoryText).WithField("tls_cert_issued_to")
	case len(d.Authorities) > maxAuthorities:
		return fault.New(fault.Invalid, "tls_ca: more than %d bytes", maxAuthorities).WithField("tls_ca")
	}
	return nil
}

// noDirectory returns the error without a configuration.
func noDirectory() error { return fault.New(fault.NotFound, "there is no LDAP configuration") }

func directoryOf(r ledger.Reader) (mastercfg.Directory, error) {
	d, err := ledger.Read[mastercfg.Directory](r, mastercfg.DirectoryKey)
	if fault.Is(err, fault.NotFound) {
		return d, noDirectory()
	}
	return d, err
}

func (l *Logins) getDirectory(*http.Request) (rest.Reply, error) {
	return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
		d, err := directoryOf(r)
		return rest.Reply{Body: formOfDirectory(d)}, err
	}}, nil
}

// putDirectory replaces the configuration of the directory; a PATCH changes the fields that it names.
func (l *Logins) putDirectory(r *http.Request) (rest.Reply, error) {
	var sent contivmodel.LDAPConfig
	if err := rest.ReadInto(r, &sent); err != nil {
		return rest.Reply{}, err
	}
	isNew := r.Method == http.MethodPut
	var d mastercfg.Directory
	if isNew && sent.Password == nil {
		return rest.Reply{}, fault.New(fault.Invalid, "service_account_password: it is wanted").WithField("service_account_password")
	}
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		if d = (mastercfg.Directory{}); !isNew {
			if d, err = directoryOf(tx); err != nil {
				return err
			}
		}
		if err := l.updateDirectory(sent, &d); err != nil {
			return err
		}
		auth.CallerFrom(r.Context()).SetSubject(fmt.Sprintf("server %s, port %d", d.Server, d.Port))
		return ledger.Write(tx, mastercfg.DirectoryKey, d)
	})
	if err == nil && d.SkipVerify {
		l.config.Log.Warn("the certificate of the LDAP server is not verified: whoever answers in its place learns passwords (insecure_skip_verify)")
	}
	code := http.StatusOK
	if isNew {
		code = http.StatusCreated
	}
	return rest.Reply{Code: code, Body: formOfDirectory(d), Revision: rev}, err
}

func (l *Logins) deleteDirectory(r *http.Request) (rest.Reply, error) {
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		if _, err := directoryOf(tx); err != nil {
			return err
		}
		return access.KeepingAdmin(tx, auth.CallerFrom(r.Context()).Who, func() error {
			tx.Delete(mastercfg.DirectoryKey)
			return nil
		})
	})
	return rest.Reply{Code: http.StatusNoContent, Revision: rev}, err
}

// groupsOf verifies a password at the directory, and returns the
// groups of its user. found reports whether a directory is configured.
func (l *Logins) groupsOf(ctx context.Context, name, password string) (groups []string, found bool, err error) {
	var d mastercfg.Directory
	err = l.config.Ledger.View(func(r ledger.Reader) (err error) {
		d, err = directoryOf(r)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	account, err := l.config.Keyring.Open(mastercfg.DirectoryKey, d.Password)
	if err != nil {
		return nil, true, err
	}
	done, err := l.directory.asking.TryAcquire(logins)
	if err != nil {
		return nil, true, err
	}
	defer done()
	groups, err = directory.Config{Server: d.Server, Port: d.Port, BaseDN: d.BaseDN, Account: d.Account, AccountPassword: secret.Text(account), StartTLS: d.StartTLS,
		SkipVerify: d.SkipVerify, IssuedTo: d.IssuedTo, Authorities: d.Authorities, UserAttribute: d.UserAttribute}.Groups(ctx, name, password)
	return exceptOfProvider(groups), true, err
}

// exceptOfProvider drops names in the form of an OpenID Connect provider's groups, in any case (mastercfg.BindingsKey):
// a directory gives the roles of its own groups only.
func exceptOfProvider(groups []string) []string {
	const n = len(mastercfg.OpenIDPrefix)
	return slices.DeleteFunc(groups, func(name string) bool { return len(name) >= n && strings.EqualFold(name[:n], mastercfg.OpenIDPrefix) })
}
