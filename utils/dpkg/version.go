package dpkg

import "pault.ag/go/debian/version"

// Upstream is the part of a version that the authors of the program have given it: 3.1.0 of 1:3.1.0-2+deb12u1.
// Of what is no version it is empty.
func Upstream(text string) string { return parsed(text).Version }

// Compare orders two versions as dpkg does (Debian Policy, 5.6.12). What is no version comes before all that are.
func Compare(a, b string) int { return max(-1, min(1, version.Compare(parsed(a), parsed(b)))) }

func parsed(text string) version.Version {
	v, err := version.Parse(text)
	if err != nil {
		return version.Version{}
	}
	return v
}
