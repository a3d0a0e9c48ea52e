# Installs the CNI plugin and its configuration. Arguments: the content of
# contiv.json, the plugin.
mkdir -p /var/contiv/config
printf %s "$1" > /var/contiv/config/contiv.json
cp "$2" /opt/cni/bin/contivk8s
cp /usr/lib/cni/loopback /opt/cni/bin/loopback
rm -f /etc/cni/net.d/*
cat > /etc/cni/net.d/05-contiv.conflist.new <<'END'
{
  "cniVersion": "1.0.0",
  "cniVersions": ["1.0.0", "1.1.0"],
  "name": "contiv",
  "plugins": [{"type": "contivk8s"}]
}
END
mv /etc/cni/net.d/05-contiv.conflist.new /etc/cni/net.d/05-contiv.conflist
