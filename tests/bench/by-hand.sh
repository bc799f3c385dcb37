#!/bin/sh
# shellcheck shell=sh
# by-hand.sh SNAPSHOT CONTAINER KEY [FILE]: a session as one would script it without xdrive, with the AWS
# CLI's own commands and waiters and OpenSSH. A shell in CONTAINER, which is on the drive that
# SNAPSHOT holds (with everything that Docker keeps below docker/); afterwards the drive is a
# snapshot again, and its id is printed. KEY is the private key to log in with. With FILE, a path in
# the drive's file system, that file is printed instead, and the drive is not saved.
#
# It is as fast as such a script can be: steps run in parallel, connections are shared, the instance
# is terminated as soon as the snapshot is begun. It trusts the first host key it gets, and removes
# nothing when it is interrupted.
#
# The key travels in user data, and no security group is named, because the EC2 in a folder knows no
# key pairs, and its groups do not hold for this computer.
set -eu

ZONE=us-east-1a
IMAGE=resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id
TYPE=c6a.large
LOGIN='admin' # Debian's images; ec2-user on Amazon Linux

on_host() {
  ssh -o BatchMode=yes -o ConnectTimeout=3 -o StrictHostKeyChecking=accept-new \
    -o UserKnownHostsFile="$dir/known_hosts" -o LogLevel=ERROR -i "$key" \
    -o ControlMaster=auto -o ControlPath="$dir/ssh" -o ControlPersist=60 "$@"
}

begin() {
  printf '#cloud-config\nssh_authorized_keys:\n- %s\nwrite_files:\n- path: %s\n  content: %s\n' \
    "$(cat "$key.pub")" /etc/docker/daemon.json "'{\"data-root\": \"/v1/docker\"}'" >"$dir/user-data"
  aws ec2 create-volume --snapshot-id "$snapshot" --availability-zone $ZONE --volume-type gp3 \
    --query VolumeId --output text >"$dir/volume" &
  instance=$(aws ec2 run-instances --image-id $IMAGE --instance-type $TYPE \
    --placement AvailabilityZone=$ZONE --instance-market-options MarketType=spot \
    --user-data "file://$dir/user-data" --query 'Instances[0].InstanceId' --output text)
  wait
  volume=$(cat "$dir/volume")
  aws ec2 wait volume-available --volume-ids "$volume" &
  aws ec2 wait instance-running --instance-ids "$instance"
  wait
  aws ec2 attach-volume --volume-id "$volume" --instance-id "$instance" --device /dev/sdf >/dev/null
  aws ec2 wait volume-in-use --volume-ids "$volume" &
  address=$(aws ec2 describe-instances --instance-ids "$instance" \
    --query 'Reservations[0].Instances[0].PublicIpAddress' --output text)
  until on_host "$LOGIN@$address" true; do sleep 1; done
  wait
}

enter() {
  disk=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol${volume#vol-}
  # shellcheck disable=SC2029 # expanded here, and meant to be
  on_host "$LOGIN@$address" "until [ -b $disk ]; do sleep 1; done
    sudo mkdir -p /v1 && sudo mount $disk /v1 && sudo systemctl start docker &&
    sudo docker start $container" >/dev/null
  on_host -t "$LOGIN@$address" "sudo docker exec -it -w /work $container bash -l" || :
}

save() {
  # shellcheck disable=SC2029 # expanded here, and meant to be
  on_host "$LOGIN@$address" "sudo docker stop $container &&
    sudo systemctl stop docker.socket docker.service && sudo umount /v1" >/dev/null
  saved=$(aws ec2 create-snapshot --volume-id "$volume" --query SnapshotId --output text)
  aws ec2 terminate-instances --instance-ids "$instance" >/dev/null
  aws ec2 wait snapshot-completed --snapshot-ids "$saved"
  aws ec2 wait volume-available --volume-ids "$volume"
  aws ec2 delete-volume --volume-id "$volume"
  printf 'saved: %s\n' "$saved"
}

show() {
  disk=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol${volume#vol-}
  # shellcheck disable=SC2029 # expanded here, and meant to be
  on_host "$LOGIN@$address" "until [ -b $disk ]; do sleep 1; done
    sudo mkdir -p /v1 && sudo mount $disk /v1 && sudo cat /v1/$1 && sudo umount /v1"
  aws ec2 terminate-instances --instance-ids "$instance" >/dev/null
  aws ec2 wait volume-available --volume-ids "$volume"
  aws ec2 delete-volume --volume-id "$volume"
}

main() {
  snapshot=$1 container=$2 key=$3
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  begin
  if [ "$#" -gt 3 ]; then
    show "$4"
  else
    enter
    save
  fi
}

main "$@"
