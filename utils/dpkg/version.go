package dpkg

import "pault.ag/go/debian/version"

// Upstream returns the upstream part of a version: 3.1.0 of 1:3.1.0-2+deb12u1. For an invalid version it is empty.
func Upstream(text string) string { return parsed(text).Version }

// Compare orders two versions as dpkg does (Debian Policy, 5.6.12). Invalid versions come first.
func Compare(a, b string) int { return max(-1, min(1, version.Compare(parsed(a), parsed(b)))) }

func parsed(text string) version.Version {
	v, err := version.Parse(text)
	if err != nil {
		return version.Version{}
	}
	return v
}
