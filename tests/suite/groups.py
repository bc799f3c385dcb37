"""Rules of security groups whose source is a group, printed as an EC2 answers."""

import boto3
from botocore.exceptions import ClientError

ec2 = boto3.client("ec2")


def refused(what, call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        print(what, error.response["Error"]["Code"])
    else:
        print(what, "is done")


def shown(group):
    """The group's permissions, with names in place of ids and accounts."""
    groups = ec2.describe_security_groups()["SecurityGroups"]
    names = {group["GroupId"]: group["GroupName"] for group in groups}
    [found] = [it for it in groups if it["GroupId"] == group]
    for permission in sorted(found["IpPermissions"], key=str):
        pairs = permission["UserIdGroupPairs"]
        assert all(pair["UserId"] == found["OwnerId"] for pair in pairs)
        yield (
            permission["IpProtocol"],
            permission.get("FromPort"),
            permission.get("ToPort"),
            [(names[pair["GroupId"]], pair.get("Description")) for pair in pairs],
            [(it["CidrIp"], it.get("Description")) for it in permission["IpRanges"]],
        )


def made(name):
    return ec2.create_security_group(GroupName=name, Description=name)["GroupId"]


def allows(protocol, ports, pairs, ranges=()):
    permission = {"IpProtocol": protocol, "UserIdGroupPairs": list(pairs)}
    permission["IpRanges"] = [{"CidrIp": range} for range in ranges]
    if ports:
        permission["FromPort"], permission["ToPort"] = ports
    return [permission]


authorize = ec2.authorize_security_group_ingress
revoke = ec2.revoke_security_group_ingress
leader, workers = made("leader"), made("workers")
[rule] = authorize(
    GroupId=leader,
    IpPermissions=allows("tcp", (2049, 2049), [{"GroupId": workers, "Description": "shares"}]),
)["SecurityGroupRules"]
print(rule["IpProtocol"], rule["FromPort"], rule["ToPort"], rule["IsEgress"])
print("referenced", rule["ReferencedGroupInfo"]["GroupId"] == workers)
many = [{"GroupId": workers}, {"GroupId": leader}]
authorize(GroupId=leader, IpPermissions=allows("udp", (4789, 4790), many, ["192.0.2.0/24"]))
authorize(GroupId=workers, IpPermissions=allows("-1", None, [{"GroupId": workers}]))
for group in leader, workers:
    print(*shown(group), sep="\n")

pair = {"GroupId": workers}
again = allows("tcp", (2049, 2049), [{**pair, "Description": "shares"}])
refused("again", authorize, GroupId=leader, IpPermissions=again)
gone = [{"GroupId": "sg-0000000000000dead"}]
refused("of no group", authorize, GroupId=leader, IpPermissions=allows("tcp", (1, 1), gone))
refused("by no group", revoke, GroupId=leader, IpPermissions=allows("tcp", (1, 1), gone))
refused("in no group", authorize, GroupId=gone[0]["GroupId"], IpPermissions=again)
other = allows("tcp", (2050, 2050), [pair])
refused("that is not there", revoke, GroupId=leader, IpPermissions=other)
filters = [{"Name": "ip-permission.group-id", "Values": [leader]}]
found = ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
print("named by", sorted(group["GroupName"] for group in found))
revoke(GroupId=leader, SecurityGroupRuleIds=[rule["SecurityGroupRuleId"]])
revoke(GroupId=leader, IpPermissions=allows("udp", (4789, 4790), many[:1]))
print(*shown(leader), sep="\n")

spare = made("spare")
refused("twice", authorize, GroupId=spare, IpPermissions=other + other)
refused("unknown protocol", authorize, GroupId=spare, IpPermissions=allows("all", (1, 1), [pair]))
authorize(GroupId=spare, IpPermissions=allows("tcp", (1, 1), [pair]))
described = allows("tcp", (1, 1), [{**pair, "Description": "otherwise"}])
refused("described otherwise", authorize, GroupId=spare, IpPermissions=described)
[default] = ec2.describe_security_groups(GroupNames=["default"])["SecurityGroups"]
print("default", *shown(default["GroupId"]))
refused("named by a rule", ec2.delete_security_group, GroupId=workers)
