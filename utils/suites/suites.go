// Package suites says by which cipher suites our servers speak TLS.
package suites

import "crypto/tls"

// TLS12 are those of TLS 1.2: ECDHE, so that a key that is stolen later opens nothing, with AEAD, so that nothing is padded and
// judged before it is authenticated. Those of TLS 1.3 are all of that kind.
func TLS12() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}
