package membership

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// The CAs are replaced in steps (pki.Step). Each waits until every registered member has the result of the step
// before: after a step too early, daemons would refuse each other.

// handOver answers the CAs with their keys to another netmaster.
func (m *Members) handOver(*http.Request) (rest.Reply, error) {
	by, err := m.Authorities()
	if err != nil {
		return rest.Reply{}, err
	}
	files, err := handoverFiles(by, m.term.Keyring)
	return rest.Reply{Body: mastercfg.HandedAuthorities{Files: files}}, err
}

// handoverFiles returns the files for a netmaster.
func handoverFiles(by pki.Authorities, ring *keyring.Keyring) (map[string]string, error) {
	files, err := by.Encode()
	if err != nil {
		return nil, err
	}
	keys, err := ring.HandOver()
	if err == nil && keys != "" {
		files[keyring.Name] = keys
	}
	return files, err
}

// rotate executes the next step. The CAs are on the disk of this
// netmaster before the record names them; then the others request them.
func (m *Members) rotate(r *http.Request, request *mastercfg.RotateRequest) (rest.Reply, error) {
	m.rotating.Lock()
	defer m.rotating.Unlock()
	by, err := m.Authorities()
	if err != nil {
		return rest.Reply{}, err
	}
	record, err := m.securityRecord()
	if err != nil {
		return rest.Reply{}, err
	}
	if hash := by.Hash(); record.Authorities != hash && (record.Authorities != "" || by.Step() != pki.Add) && !request.DryRun {
		// A step was interrupted before the record named its result.
		rev, err := m.nameAuthorities(r.Context(), by)
		return rest.Reply{Body: mastercfg.Rotation{Step: "again", Authorities: hash, Absent: []string{}}, Revision: rev}, err
	}
	step := by.Step()
	absent, err := m.checkAllHaveAuthorities(r.Context(), by.Hash())
	if err != nil {
		return rest.Reply{}, err
	}
	next, err := by.Next(m.term.Now())
	if err != nil {
		return rest.Reply{}, err
	}
	said := mastercfg.Rotation{Step: string(step), Authorities: next.Hash(), Done: step == pki.Drop, Absent: absent}
	auth.CallerFrom(r.Context()).SetSubject(aboutStep(said.Step, request.DryRun))
	if request.DryRun {
		return rest.Reply{Body: said}, nil
	}
	if m.config.Replace == nil {
		return rest.Reply{}, fault.New(fault.Mode, "this netmaster cannot replace its authorities")
	}
	if err := m.config.Replace(by, next); err != nil {
		return rest.Reply{}, err
	}
	rev, err := m.nameAuthorities(r.Context(), next)
	return rest.Reply{Body: said, Revision: rev}, err
}

// aboutStep describes a step for the audit log.
func aboutStep(step string, dryRun bool) string {
	if dryRun {
		return "step " + step + ", dry run"
	}
	return "step " + step
}

func (m *Members) securityRecord() (record mastercfg.Security, err error) {
	err = m.term.Ledger.View(func(r ledger.Reader) (err error) {
		record, err = ledger.Read[mastercfg.Security](r, mastercfg.SecurityKey)
		return orMissing(err, fault.New(fault.Mode, "this cluster has no authorities: key %s is missing", mastercfg.SecurityKey))
	})
	return record, err
}

// nameAuthorities writes to the record which CAs all members must have. When new ones sign, join tokens from before end:
// who joins rightly refuses them by their pin, and whoever has stolen one could replace the pin in it.
func (m *Members) nameAuthorities(ctx context.Context, by pki.Authorities) (int64, error) {
	return m.term.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		record, err := ledger.Read[mastercfg.Security](tx, mastercfg.SecurityKey)
		if err != nil {
			return err
		}
		record.Authorities = by.Hash()
		if by.Step() == pki.Drop {
			access.DropJoinTokens(tx)
		}
		return ledger.Write(tx, mastercfg.SecurityKey, record)
	})
}

// checkAllHaveAuthorities refuses a step of a rotation while a registered node or netmaster does not have the authorities of the
// step before. absent names those that have joined and are down: if they stay down for all steps, they have to join again. Removed
// netmasters are ignored.
func (m *Members) checkAllHaveAuthorities(ctx context.Context, authorities string) (absent []string, err error) {
	absent = []string{}
	var behind []string
	here := map[string]bool{}
	registered := map[identity.Kind][]objdb.Service{}
	if registered[identity.Master], err = m.Masters(ctx); err != nil {
		return nil, err
	}
	if registered[identity.Node], err = m.term.Services(ctx, mastercfg.AgentService); err != nil {
		return nil, err
	}
	for kind, all := range registered {
		for _, s := range all {
			name := s.Hostname
			if kind == identity.Master {
				name = s.HostAddr
			}
			here[string(kind)+"/"+name] = true
			// Nodes that have not joined trust no CA, and have no certificate.
			if s.Authorities != authorities && (kind == identity.Master || s.Authorities != "") {
				behind = append(behind, string(kind)+"/"+name)
			}
		}
	}
	if slices.Sort(behind); len(behind) > 0 {
		return nil, fault.New(fault.Conflict, "authorities: the next step waits for %s, which do not know what the last one has made yet: a minute or two, else see their logs",
			strings.Join(slices.Compact(behind), ", "))
	}
	err = m.term.Ledger.View(func(r ledger.Reader) error {
		nodes, err := ledger.ReadAll[mastercfg.Joined](r, mastercfg.NodePrefix)
		for _, n := range nodes {
			if name := string(identity.Node) + "/" + n.Host; !here[name] {
				absent = append(absent, name)
			}
		}
		return err
	})
	return absent, err
}
