// Package journals has journals of large plans that cannot be completed, for the tests of the code that reads
// them.
package journals

// Damaged returns such journals by their fault: keys below the journal's prefix and their values.
func Damaged() map[string]map[string]string {
	return map[string]map[string]string{
		"a negative count":        {"committed": `{"parts":-1}`},
		"no parts":                {"committed": `{"parts":0}`},
		"a huge count":            {"committed": `{"parts":9223372036854775807}`},
		"a missing part":          {"committed": `{"parts":2}`, "000000": `[]`},
		"a part of another":       {"committed": `{"attempt":"b","parts":1}`, "a/000000": `[]`},
		"junk as mark":            {"committed": "\x00\xff"},
		"an empty mark":           {"committed": ""},
		"a mark of another type":  {"committed": `[1]`},
		"a text as count":         {"committed": `{"parts":"1"}`},
		"a revision to come":      {"committed": `{"parts":1,"at":9223372036854775807}`, "000000": `[]`},
		"a negative revision":     {"committed": `{"parts":1,"at":-5}`, "000000": `[]`},
		"a path as attempt":       {"committed": `{"attempt":"../x","parts":1}`, "../x/000000": `[]`},
		"junk as part":            {"committed": `{"parts":1}`, "000000": "junk"},
		"a part of another type":  {"committed": `{"parts":1}`, "000000": `{"key":"k"}`},
		"keys of others":          {"committed": `{"parts":1}`, "000000": `[{"key":"/contiv.io/lock/netmaster/leader","delete":true}]`},
		"no key":                  {"committed": `{"parts":1}`, "000000": `[{"key":""}]`},
		"one key twice":           {"committed": `{"parts":1}`, "000000": `[{"key":"/contiv.io/state/a"},{"key":"/contiv.io/state/a"}]`},
		"put and deleted":         {"committed": `{"parts":1}`, "000000": `[{"key":"/contiv.io/state/a","value":"eA==","delete":true}]`},
		"a value that is no text": {"committed": `{"parts":1}`, "000000": `[{"key":"/contiv.io/state/a","value":7}]`},
		"a note of too many":      {"committed": `{"parts":1}`, "000000": `[{"key":"/contiv.io/state/a"}]`, "stored": "2"},
		"a note of none":          {"committed": `{"parts":1}`, "000000": `[{"key":"/contiv.io/state/a"}]`, "stored": "0"},
		"junk as note":            {"committed": `{"parts":1}`, "000000": `[{"key":"/contiv.io/state/a"}]`, "stored": "one"},
		"something behind":        {"committed": `{"parts":1}{}`, "000000": `[]`},
	}
}
