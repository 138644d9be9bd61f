#!/bin/sh
# export.sh NAMESPACE NAME CLASS SIZE
# Gives a PersistentVolumeClaim of the class "nfs" a directory below $ROOT, a line in the file $EXPORTS
# and a PersistentVolume that is reserved for it.
set -eu
[ "$3" = nfs ] || exit 0
dir=${ROOT:-/srv/nfs}/$1/$2
mkdir -p "$dir"
file=${EXPORTS:-exports}
touch "$file"
line="$dir ${CLIENTS:-*}(rw,no_subtree_check) # $1/$2"
if ! grep -qxF -- "$line" "$file"; then
	next=$(mktemp "$file.XXXXXX")
	trap 'rm -f "$next"' EXIT
	KEY=$1/$2 awk '$NF != ENVIRON["KEY"]' "$file" > "$next"
	printf '%s\n' "$line" >> "$next"
	chmod 644 "$next"
	mv "$next" "$file"
fi
volume="nfs-$(printf '%s/%s' "$1" "$2" | sha256sum | cut -c 1-16)"
[ -z "$(kubectl get pv "$volume" --ignore-not-found -o name)" ] || exit 0
kubectl create -f - <<YAML
apiVersion: v1
kind: PersistentVolume
metadata:
  name: $volume
spec:
  capacity:
    storage: $4
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: nfs
  claimRef:
    namespace: $1
    name: $2
  nfs:
    server: ${SERVER:-nfs.example.com}
    path: $dir
YAML
