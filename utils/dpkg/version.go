package dpkg

import (
	"cmp"
	"strings"
)

// Upstream is the part of a version that the authors of the program have given it: 3.1.0 of 1:3.1.0-2+deb12u1.
func Upstream(version string) string {
	_, upstream, _ := parts(version)
	return upstream
}

// Compare orders two versions as dpkg does (Debian Policy, 5.6.12).
func Compare(a, b string) int {
	epochA, upstreamA, revisionA := parts(a)
	epochB, upstreamB, revisionB := parts(b)
	return cmp.Or(compare(epochA, epochB), compare(upstreamA, upstreamB), compare(revisionA, revisionB))
}

func parts(version string) (epoch, upstream, revision string) {
	epoch, upstream, found := strings.Cut(version, ":")
	if !found {
		epoch, upstream = "", version
	}
	if i := strings.LastIndexByte(upstream, '-'); i >= 0 {
		upstream, revision = upstream[:i], upstream[i+1:]
	}
	return epoch, upstream, revision
}

// compare orders two parts by what is no digit, then by the number that follows, and so on.
func compare(a, b string) int {
	for a != "" || b != "" {
		var textA, textB, numberA, numberB string
		textA, a = span(a, false)
		textB, b = span(b, false)
		numberA, a = span(a, true)
		numberB, b = span(b, true)
		if order := cmp.Or(compareText(textA, textB), compareNumber(numberA, numberB)); order != 0 {
			return order
		}
	}
	return 0
}

// span splits off what a text begins with, digits or what is none.
func span(text string, digits bool) (begin, rest string) {
	i := 0
	for i < len(text) && isDigit(text[i]) == digits {
		i++
	}
	return text[:i], text[i:]
}

func compareNumber(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func compareText(a, b string) int {
	for i := range max(len(a), len(b)) {
		if order := cmp.Compare(weight(a, i), weight(b, i)); order != 0 {
			return order
		}
	}
	return 0
}

// weight is where a character stands: "~" before the end of the text, that before letters, these before all else.
func weight(text string, i int) int {
	switch {
	case i >= len(text):
		return 0
	case text[i] == '~':
		return -1
	case 'a' <= text[i]|0x20 && text[i]|0x20 <= 'z':
		return int(text[i])
	}
	return int(text[i]) + 256
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
