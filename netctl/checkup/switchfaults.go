package checkup

import (
	"errors"
	"fmt"
	"strings"

	"github.com/contiv/netplugin/utils/dpkg"
)

// switchFault is a fault of Open vSwitch that defeats protection by flows, with the versions that have the fix: of
// each release line the first one, the last of which also fixes all later lines, and packages that have the fix in
// an older version.
type switchFault struct {
	id       string
	releases []string
	packages []string
}

// switchFaults come from the announcements of Open vSwitch (mail.openvswitch.org/pipermail/ovs-announce,
// 2023-April/000316 and 2024-February/000339) and from the changelog of Debian's package (openvswitch 3.1.0-2, and
// 3.1.0-2+deb12u1 of bookworm-security).
var switchFaults = []switchFault{
	{"CVE-2023-1668", []string{"2.13.11", "2.14.9", "2.15.8", "2.16.7", "2.17.6", "3.0.4", "3.1.1"}, []string{"3.1.0-2"}},
	{"CVE-2023-5366", []string{"2.17.9", "3.0.6", "3.1.4", "3.2.2"}, []string{"3.1.0-2+deb12u1"}},
}

// mended reports whether a release has the fix.
func (f switchFault) mended(release string) bool {
	for i, first := range f.releases {
		if last := i == len(f.releases)-1; dpkg.Compare(release, first) >= 0 && (last || line(release) == line(first)) {
			return true
		}
	}
	return false
}

// packaged reports whether a package has the fix; known is false unless the table has a package of the same
// release.
func (f switchFault) packaged(version string) (mended, known bool) {
	for _, first := range f.packages {
		if dpkg.Upstream(version) == dpkg.Upstream(first) {
			return dpkg.Compare(version, first) >= 0, true
		}
	}
	return false, false
}

// line returns the release line: 3.1 of 3.1.4.
func line(release string) string {
	parts := strings.SplitN(release, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// checkFaults names the faults that the switch of a node has. Distributions add fixes without a new release: for
// an unknown package the result is not certain. Nor does the package apply to a program that was started before it
// was installed.
func (v bridgeView) checkFaults(host string, report Report) {
	release, installed := v.Datapath.Version, v.Datapath.Package
	var has, may, before []string
	for _, f := range switchFaults {
		if release == "" || f.mended(release) {
			continue
		}
		switch mended, known := f.packaged(installed); {
		case !known:
			may = append(may, f.id)
		case !mended:
			has = append(has, f.id)
		case v.Datapath.Replaced:
			before = append(before, f.id)
		}
	}
	name := "openvswitch " + host
	if len(has) > 0 {
		report.check(name, "upgrade it: packets can get past what is guarded (docs/security.md)", "", errors.New(installed+" has "+strings.Join(has, ", ")))
	}
	if len(may) > 0 {
		of := "its package is not known"
		if installed != "" {
			of = "it is not known whether " + installed + " has their mends"
		}
		report.check(name, "", fmt.Sprintf("WARNING, %s had %s when it was released; %s", release, strings.Join(may, ", "), of), nil)
	}
	if v.Datapath.Replaced {
		reportReplaced(name, installed, before, report)
	}
}

// reportReplaced reports that the running program is older than the package, and which faults it may therefore
// have.
func reportReplaced(name, installed string, before []string, report Report) {
	const remedy = "restart ovs-vswitchd: what runs there is older than the package"
	problem := installed + " was installed after ovs-vswitchd began"
	if len(before) == 0 {
		report.check(name, "", "WARNING, "+problem+"; "+remedy, nil)
		return
	}
	report.check(name, remedy, "", fmt.Errorf("%s, which may have %s", problem, strings.Join(before, ", ")))
}
