package accounts

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"github.com/contiv/netplugin/utils/fault"
)

// Cost has the cost parameters of argon2id.
type Cost struct {
	Memory  uint32 // KiB
	Time    uint32 // passes over it
	Threads uint8
}

// DefaultCost is the recommendation of RFC 9106 for servers with little memory.
var DefaultCost = Cost{Memory: 64 << 10, Time: 3, Threads: 1}

// most limits the cost of a stored hash, so that a manipulated record cannot use up the machine's memory.
var most = Cost{Memory: 256 << 10, Time: 16, Threads: 4}

const (
	saltSize   = 16
	digestSize = 32
)

// encoding is the base64 of the PHC string format, without padding.
var encoding = base64.RawStdEncoding.Strict()

// hash returns the stored form of a password: $argon2id$v=19$m=65536,t=3,p=1$<salt>$<digest>.
func (c Cost) hash(password string) string {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	return c.stored(salt, argon2.IDKey([]byte(password), salt, c.Time, c.Memory, c.Threads, digestSize))
}

func (c Cost) stored(salt, digest []byte) string {
	return fmt.Sprintf("%s%s$%s", c.prefix(), encoding.EncodeToString(salt), encoding.EncodeToString(digest))
}

func (c Cost) prefix() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$", argon2.Version, c.Memory, c.Time, c.Threads)
}

// stored is a parsed hash.
type stored struct {
	cost         Cost
	salt, digest []byte
	bcrypt       []byte // a hash of the original controller; the other fields are zero then
}

// parse parses a stored hash. Errors do not show it.
func parse(text string) (s stored, err error) {
	if strings.HasPrefix(text, "$2") {
		cost, err := bcrypt.Cost([]byte(text))
		if err != nil || cost > bcryptMost {
			return s, fault.New(fault.Internal, "stored password: no bcrypt hash of a cost up to %d", bcryptMost)
		}
		return stored{bcrypt: []byte(text)}, nil
	}
	corrupt := fault.New(fault.Internal, "stored password: neither an argon2id nor a bcrypt hash that is in the limits")
	fields := strings.Split(text, "$")
	if len(fields) != 6 {
		return s, corrupt
	}
	c := &s.cost
	if _, err := fmt.Sscanf(fields[3], "m=%d,t=%d,p=%d", &c.Memory, &c.Time, &c.Threads); err != nil ||
		!strings.HasPrefix(text, c.prefix()) || c.Time == 0 || c.Threads == 0 ||
		c.Memory > most.Memory || c.Time > most.Time || c.Threads > most.Threads {
		return s, corrupt
	}
	if s.salt, err = encoding.DecodeString(fields[4]); err != nil || len(s.salt) < 8 || len(s.salt) > 64 {
		return s, corrupt
	}
	if s.digest, err = encoding.DecodeString(fields[5]); err != nil || len(s.digest) != digestSize {
		return s, corrupt
	}
	return s, nil
}

// bcryptMost is the highest accepted cost; the original uses 13.
const bcryptMost = 14

// matches compares a password with the hash, in constant time.
func (s stored) matches(password string) bool {
	if s.bcrypt != nil {
		return bcrypt.CompareHashAndPassword(s.bcrypt, []byte(password)) == nil
	}
	digest := argon2.IDKey([]byte(password), s.salt, s.cost.Time, s.cost.Memory, s.cost.Threads, digestSize)
	return subtle.ConstantTimeCompare(digest, s.digest) == 1
}
