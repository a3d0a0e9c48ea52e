package daemon

import "github.com/contiv/netplugin/objdb"

type kv = objdb.KV

func txnPut(key, value string) objdb.Txn {
	return objdb.Txn{Puts: []objdb.KV{{Key: key, Value: []byte(value)}}}
}

func txnDelete(key string) objdb.Txn { return objdb.Txn{Deletes: []string{key}} }
