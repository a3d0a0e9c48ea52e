// Package suites has the TLS cipher suites of the project's servers.
package suites

import "crypto/tls"

// TLS12 returns those of TLS 1.2: ECDHE, so that a key stolen later decrypts nothing, with AEAD, so that no
// padding is evaluated before it is authenticated. All suites of TLS 1.3 are of that kind.
func TLS12() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}
